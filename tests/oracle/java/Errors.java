/** Prints the code and the general message of every error, with a tab between them. */
public class Errors {
    public static void main(String[] arguments) {
        for (org.apache.kafka.common.protocol.Errors error : org.apache.kafka.common.protocol.Errors.values()) {
            System.out.println(error.code() + "\t" + error.message());
        }
    }
}
