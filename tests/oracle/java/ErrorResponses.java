import java.nio.ByteBuffer;
import java.util.HexFormat;
import java.util.Scanner;
import org.apache.kafka.common.errors.ClusterAuthorizationException;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.requests.AbstractRequest;
import org.apache.kafka.common.requests.AbstractResponse;

/** Reads lines "key version body" and writes, for each, the body of Apache Kafka's error response, all in hex. */
public class ErrorResponses {
    public static void main(String[] arguments) {
        Scanner lines = new Scanner(System.in);
        while (lines.hasNext()) {
            ApiKeys key = ApiKeys.forId(lines.nextInt());
            short version = lines.nextShort();
            ByteBuffer body = ByteBuffer.wrap(HexFormat.of().parseHex(lines.next().substring(1)));
            String answer;
            try {
                AbstractRequest request = AbstractRequest.parseRequest(key, version, body).request;
                AbstractResponse response = request.getErrorResponse(0, new ClusterAuthorizationException("no"));
                if (response == null) {
                    answer = "none";
                } else {
                    ByteBuffer bytes = MessageUtil.toByteBuffer(response.data(), version);
                    byte[] copy = new byte[bytes.remaining()];
                    bytes.get(copy);
                    answer = "x" + HexFormat.of().formatHex(copy);
                }
            } catch (RuntimeException e) {
                answer = "failed:" + e.getClass().getSimpleName();
            }
            System.out.println(answer);
        }
    }
}
