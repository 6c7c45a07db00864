// mvn test
package shop;

import static org.junit.jupiter.api.Assertions.assertEquals;

import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

class ShopTest {
    private static TestServer server;

    @BeforeAll
    static void start() throws Exception {
        server = new TestServer();
    }

    @AfterAll
    static void stop() throws Exception {
        server.close();
    }

    @BeforeEach
    void reset() throws Exception {
        server.post("/reset", null);
        server.post("/topics", "{\"name\": \"orders\"}");
    }

    @Test
    void anOrderIsStoredOnceThoughItsAnswerIsLost() throws Exception {
        int fault = server.post("/faults", "{\"api\": \"Produce\", \"close\": \"after\", \"times\": 1}").get("id").asInt();
        try (var producer = new KafkaProducer<>(settings(), new StringSerializer(), new StringSerializer())) {
            producer.send(new ProducerRecord<>("orders", "one book")).get();
        }
        assertEquals(1, server.get("/faults/" + fault).get("fired").asInt());
        JsonNode requests = server.get("/requests?api=Produce&topic=orders&field.acks=-1").get("requests");
        assertEquals(List.of("closed", "answered"), texts(requests, "outcome"));
        assertEquals(List.of("one book"), texts(server.get("/topics/orders/records").get("records"), "value"));
    }

    @Test
    void theBillingReadsAllOrdersThoughItsCoordinatorMoves() throws Exception {
        server.post("/topics/orders/records", "{\"records\": [\"1\", \"2\", \"3\"]}");
        server.post("/faults", "{\"api\": \"JoinGroup\", \"group\": \"billing\", \"times\": 1, \"error\": \"NOT_COORDINATOR\"}");
        List<String> billed = new ArrayList<>();
        try (var consumer = new KafkaConsumer<>(settings(), new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of("orders"));
            while (billed.size() < 3) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofSeconds(1))) {
                    billed.add(record.value());
                }
            }
            consumer.commitSync();
            server.post("/waits", "{\"group\": \"billing\", \"lag\": 0, \"timeout_s\": 5}");
        }
        assertEquals(List.of("1", "2", "3"), billed);
        assertEquals("Empty", server.post("/waits", "{\"group\": \"billing\", \"state\": \"Empty\"}").get("seen").asText());
    }

    private static Map<String, Object> settings() {
        return Map.of(
            "bootstrap.servers", server.bootstrapServers(), "client.id", "shop", "group.id", "billing", "auto.offset.reset", "earliest");
    }

    private static List<String> texts(JsonNode objects, String field) {
        List<String> texts = new ArrayList<>();
        objects.forEach(object -> texts.add(object.get(field).asText()));
        return texts;
    }
}
