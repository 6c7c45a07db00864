import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Properties;
import java.util.UUID;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** PacedClient BOOTSTRAP TOPIC PARTITIONS RATE LINGER_MS WARM_S SECONDS: what paced_client.py does, with Java's clients. */
public class PacedClient {
    private static volatile boolean isMeasuring;
    private static volatile boolean isOver;
    private static final int BEGIN_S = 60;
    private static final List<Double> tookMs = new ArrayList<>();

    private static ProducerRecord<byte[], byte[]> next(String topic, int partition) {
        byte[] value = new byte[100];
        ByteBuffer.wrap(value).putLong(nowNs());
        return new ProducerRecord<>(topic, partition, null, value);
    }

    private static long nowNs() {
        java.time.Instant now = java.time.Instant.now();
        return now.getEpochSecond() * 1_000_000_000L + now.getNano();
    }

    public static void main(String[] arguments) throws Exception {
        String topic = arguments[1];
        int partitions = Integer.parseInt(arguments[2]);
        double rate = Double.parseDouble(arguments[3]);
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("linger.ms", arguments[4]);
        settings.put("group.id", UUID.randomUUID().toString());
        settings.put("auto.offset.reset", "earliest");
        KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
        KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        consumer.subscribe(List.of(topic));
        producer.send(next(topic, 0)).get();
        long begin = System.nanoTime();
        while (consumer.poll(Duration.ofMillis(100)).isEmpty()) {
            if (System.nanoTime() - begin > BEGIN_S * 1e9) {
                throw new IllegalStateException("the consumer reads nothing");
            }
        }
        Thread reader = new Thread(() -> {
            while (!isOver) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(100))) {
                    if (isMeasuring) {
                        tookMs.add((nowNs() - ByteBuffer.wrap(record.value()).getLong()) / 1e6);
                    }
                }
            }
        });
        reader.start();
        begin = System.nanoTime();
        double measuringAt = Double.parseDouble(arguments[5]) * 1e9;
        double end = measuringAt + Double.parseDouble(arguments[6]) * 1e9;
        long sent = 0;
        for (long now = 0; now < end; now = System.nanoTime() - begin) {
            if (!isMeasuring && now >= measuringAt) {
                isMeasuring = true;
                System.out.println("measuring");
            }
            while (sent < now * rate / 1e9) {
                producer.send(next(topic, (int) (sent++ % partitions)));
            }
            Thread.sleep(1);
        }
        isOver = true;
        reader.join();
        producer.close();
        consumer.close();
        Collections.sort(tookMs);
        System.out.println(tookMs.size() + " " + tookMs.get(tookMs.size() / 2) + " " + tookMs.get(tookMs.size() * 99 / 100));
    }
}
