import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicIdPartition;

/**
 * Sharing.java BOOTSTRAP GROUP TOPIC NAME: a member of a share group, which prints what it gets and what becomes of its
 * acknowledgements, as tests/clients/sharing.py reads it. Ends when its input ends.
 */
public class Sharing {
    public static void main(String[] args) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", args[0]);
        settings.put("group.id", args[1]);
        settings.put("client.id", args[3]);
        settings.put("share.acknowledgement.mode", "explicit");
        settings.put("max.poll.records", "50");
        settings.put("reconnect.backoff.max.ms", "200");
        settings.put("key.deserializer", "org.apache.kafka.common.serialization.ByteArrayDeserializer");
        settings.put("value.deserializer", "org.apache.kafka.common.serialization.ByteArrayDeserializer");
        try (KafkaShareConsumer<byte[], byte[]> consumer = new KafkaShareConsumer<>(settings)) {
            consumer.subscribe(List.of(args[2]));
            while (System.in.available() == 0) {
                StringBuilder got = new StringBuilder();
                StringBuilder types = new StringBuilder();
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
                    int count = record.deliveryCount().get();
                    int type = type(record.offset(), count);
                    String place = record.partition() + ":" + record.offset();
                    got.append(' ').append(place).append(':').append(count);
                    types.append(' ').append(place).append(':').append(type);
                    consumer.acknowledge(record, AcknowledgeType.forId((byte) type));
                }
                if (got.isEmpty()) {
                    continue;
                }
                System.out.println("got " + System.nanoTime() + got);
                Thread.sleep(5);
                System.out.println("ack " + System.nanoTime() + types);
                StringBuilder failed = new StringBuilder();
                Map<TopicIdPartition, Optional<KafkaException>> outcome = consumer.commitSync(Duration.ofSeconds(30));
                outcome.forEach((partition, error) -> error.ifPresent(each -> failed.append(' ').append(partition.partition())));
                System.out.println("end " + System.nanoTime() + failed);
            }
        }
    }

    /** The same as in sharing.py. */
    private static int type(long offset, int count) {
        return offset % 20 == 7 ? 3 : offset % 10 == 3 && count == 1 ? 2 : 1;
    }
}
