package shop;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.junit.jupiter.api.Test;
import org.testcontainers.junit.jupiter.Container;
import org.testcontainers.junit.jupiter.Testcontainers;

@Testcontainers
class ShopTest {
    @Container
    static final TwistedKafkaContainer kafka = new TwistedKafkaContainer().withSetting("num.partitions", "3");

    @Test
    void anOrderIsRead() throws Exception {
        Map<String, Object> settings = Map.of("bootstrap.servers", kafka.getBootstrapServers(), "group.id", "g", "auto.offset.reset", "earliest");
        try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            producer.send(new ProducerRecord<>("orders", "an order")).get();
        }
        try (var consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of("orders"));
            var records = consumer.poll(Duration.ofSeconds(20));
            while (records.isEmpty()) {
                records = consumer.poll(Duration.ofSeconds(20));
            }
            assertEquals("an order", records.iterator().next().value());
        }
    }
}
