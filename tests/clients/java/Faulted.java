import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Does what it is told on stdin, a line each, and tells on stdout what came of it, a line each: see tests/clients/under_faults.py. */
public class Faulted {
    private static KafkaProducer<String, String> producer;
    private static KafkaConsumer<String, String> consumer;
    private static String topic;

    public static void main(String[] args) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = input.readLine()) != null;) {
            String told;
            try {
                told = run(line.split(" "));
            } catch (Throwable error) { // whichever it is, it is what the client does
                told = error.getClass().getSimpleName();
            }
            System.out.println("> " + told);
        }
    }

    private static String run(String[] words) {
        switch (words[0]) {
            case "producer":
                topic = words[2];
                producer = new KafkaProducer<>(settings(words[1], "delivery.timeout.ms", "4000", "max.block.ms", "4000"));
                return "ready";
            case "consumer":
                consumer = new KafkaConsumer<>(settings(words[1], "fetch.max.wait.ms", "100", "auto.offset.reset", "earliest"));
                TopicPartition partition = new TopicPartition(words[2], 0);
                consumer.assign(List.of(partition));
                consumer.seek(partition, 0);
                return "ready";
            case "send":
                try {
                    producer.send(new ProducerRecord<>(topic, words[1])).get();
                    return "acknowledged";
                } catch (ExecutionException error) {
                    return error.getCause().getClass().getSimpleName();
                } catch (Throwable error) {
                    return error.getClass().getSimpleName();
                }
            case "read":
                return read(words[1], System.nanoTime() + Long.parseLong(words[2]) * 1_000_000L);
            default:
                close();
                return "closed";
        }
    }

    private static String read(String wanted, long dueNs) {
        StringBuilder seen = new StringBuilder();
        while (System.nanoTime() < dueNs) {
            try {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(100))) {
                    seen.append(record.value()).append(' ');
                    if (record.value().equals(wanted)) {
                        return seen.toString().trim();
                    }
                }
            } catch (Throwable error) {
                return seen + error.getClass().getSimpleName();
            }
        }
        return seen + "nothing";
    }

    private static void close() {
        KafkaProducer<String, String> oldProducer = producer;
        KafkaConsumer<String, String> oldConsumer = consumer;
        producer = null;
        consumer = null;
        if (oldProducer != null) {
            oldProducer.close(Duration.ofMillis(200));
        }
        if (oldConsumer != null) {
            oldConsumer.close(Duration.ofMillis(200));
        }
    }

    private static Properties settings(String servers, String... more) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", servers);
        settings.put("request.timeout.ms", "1000");
        settings.put("default.api.timeout.ms", "4000");
        settings.put("retry.backoff.ms", "50");
        settings.put("key.serializer", StringSerializer.class);
        settings.put("value.serializer", StringSerializer.class);
        settings.put("key.deserializer", StringDeserializer.class);
        settings.put("value.deserializer", StringDeserializer.class);
        for (int at = 0; at < more.length; at += 2) {
            settings.put(more[at], more[at + 1]);
        }
        return settings;
    }
}
