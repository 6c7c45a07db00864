import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Transactions.java BOOTSTRAP: does what each line of its input says, a command and its arguments with tabs between, and answers with a
 * line: ok and what was asked for, or failed and the names of the exceptions. tests/clients/transactors.py says what the commands are.
 */
public class Transactions {
    private static final Duration PATIENCE = Duration.ofSeconds(60);

    private final String bootstrap;
    private final Map<String, Transactor> transactors = new HashMap<>();

    Transactions(String bootstrap) {
        this.bootstrap = bootstrap;
    }

    public static void main(String[] args) throws Exception {
        Transactions transactions = new Transactions(args[0]);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(transactions.answer(line.split("\t", -1)));
        }
        Runtime.getRuntime().halt(0); // without waiting for producers that are left open
    }

    private String answer(String[] words) {
        try {
            String found = run(words[0], Arrays.copyOfRange(words, 1, words.length));
            return found == null ? "ok" : "ok\t" + found;
        } catch (Throwable error) {
            List<String> names = new ArrayList<>();
            for (Throwable each = error; each != null; each = each.getCause()) {
                names.add(each.getClass().getSimpleName());
            }
            return "failed\t" + String.join(" ", names) + "\t" + String.valueOf(error.getMessage()).replaceAll("\\s+", " ");
        }
    }

    private String run(String command, String[] words) throws Exception {
        switch (command) {
            case "open":
                transactors.put(words[0], new Transactor(bootstrap, words[1], words[2]));
                return null;
            case "join":
                Transactor joined = new Transactor(bootstrap, words[1], words[2]);
                transactors.put(words[0], joined);
                joined.join(words[0], words[3], words[4], words[5]);
                return null;
            case "fence":
                try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
                    admin.fenceProducers(List.of(words[0])).all().get();
                }
                return null;
            case "read":
                return read(words[0], words[1]);
        }
        Transactor transactor = transactors.get(words[0]);
        switch (command) {
            case "begin":
                transactor.sent.clear();
                transactor.producer.beginTransaction();
                return null;
            case "send":
                transactor.send(words[1], Integer.valueOf(words[2]), words[3]);
                return null;
            case "flush":
                transactor.flush();
                return null;
            case "commit":
                transactor.producer.commitTransaction();
                return null;
            case "abort":
                transactor.producer.abortTransaction();
                return null;
            case "transform":
                return String.valueOf(transactor.transform(words[1], words[2]));
            default:
                throw new IllegalArgumentException(command);
        }
    }

    private String read(String topic, String isolation) {
        Map<String, Object> settings = consumerSettings(bootstrap);
        settings.put("isolation.level", isolation);
        List<String> values = new ArrayList<>();
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings)) {
            List<TopicPartition> partitions = new ArrayList<>();
            consumer.partitionsFor(topic, PATIENCE).forEach(each -> partitions.add(new TopicPartition(topic, each.partition())));
            partitions.sort((one, other) -> one.partition() - other.partition());
            Map<TopicPartition, Long> ends = consumer.endOffsets(partitions, PATIENCE);
            for (TopicPartition partition : partitions) {
                consumer.assign(List.of(partition));
                consumer.seek(partition, 0);
                while (consumer.position(partition, PATIENCE) < ends.get(partition)) {
                    consumer.poll(Duration.ofMillis(100)).forEach(record -> values.add(record.value()));
                }
            }
        }
        return String.join(",", values);
    }

    private static Map<String, Object> consumerSettings(String bootstrap) {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("key.deserializer", StringDeserializer.class);
        settings.put("value.deserializer", StringDeserializer.class);
        settings.put("enable.auto.commit", "false");
        settings.put("isolation.level", "read_committed");
        settings.put("auto.offset.reset", "earliest");
        return settings;
    }

    /** A transactional producer, and a consumer if it transforms. */
    private static class Transactor {
        private final String bootstrap;
        private final KafkaProducer<String, String> producer;
        private final List<Future<RecordMetadata>> sent = new ArrayList<>();
        private KafkaConsumer<String, String> consumer;

        Transactor(String bootstrap, String transactionalId, String timeoutMs) {
            this.bootstrap = bootstrap;
            Map<String, Object> settings = new HashMap<>();
            settings.put("bootstrap.servers", bootstrap);
            settings.put("key.serializer", StringSerializer.class);
            settings.put("value.serializer", StringSerializer.class);
            settings.put("transactional.id", transactionalId);
            settings.put("transaction.timeout.ms", timeoutMs);
            producer = new KafkaProducer<>(settings);
            producer.initTransactions();
        }

        void join(String name, String group, String topic, String protocol) {
            Map<String, Object> settings = consumerSettings(bootstrap);
            settings.put("client.id", name);
            settings.put("group.id", group);
            settings.put("group.protocol", protocol);
            if (protocol.equals("classic")) {
                settings.put("session.timeout.ms", "3000");
                settings.put("heartbeat.interval.ms", "500");
            }
            settings.put("max.poll.records", "10");
            consumer = new KafkaConsumer<>(settings);
            consumer.subscribe(List.of(topic));
        }

        void send(String topic, Integer partition, String value) {
            sent.add(producer.send(new ProducerRecord<>(topic, partition, null, value)));
        }

        void flush() throws Exception {
            producer.flush();
            List<Future<RecordMetadata>> all = new ArrayList<>(sent);
            sent.clear();
            for (Future<RecordMetadata> each : all) {
                each.get();
            }
        }

        /** Copy what one poll returns, to the same partitions, with the offsets; return how many records. */
        int transform(String target, String end) {
            ConsumerRecords<String, String> records = consumer.poll(Duration.ofSeconds(2));
            if (records.isEmpty()) {
                return 0;
            }
            producer.beginTransaction();
            try {
                Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
                for (ConsumerRecord<String, String> record : records) {
                    producer.send(new ProducerRecord<>(target, record.partition(), null, "t" + record.value()));
                    OffsetAndMetadata next = new OffsetAndMetadata(record.offset() + 1, record.leaderEpoch(), "");
                    offsets.put(new TopicPartition(record.topic(), record.partition()), next);
                }
                producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
                if (end.equals("hold")) {
                    producer.flush();
                    return records.count();
                }
                if (end.equals("commit")) {
                    producer.commitTransaction();
                    return records.count();
                }
            } catch (RuntimeException error) {
                producer.abortTransaction(); // throws again if the producer is fenced
                goBack();
                throw error;
            }
            producer.abortTransaction();
            goBack();
            return records.count();
        }

        private void goBack() {
            consumer.committed(consumer.assignment(), PATIENCE).forEach((partition, committed) ->
                consumer.seek(partition, committed == null ? 0 : committed.offset()));
        }
    }
}
