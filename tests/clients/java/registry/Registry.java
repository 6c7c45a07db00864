import java.util.List;
import java.util.Map;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.ParsedSchema;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.avro.AvroSchema;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.client.CachedSchemaRegistryClient;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.client.SchemaMetadata;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.client.rest.entities.SchemaReference;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.client.rest.exceptions.RestClientException;

/** What Confluent's Java client does with a registry: it prints a line when everything is as it expects. */
public class Registry {
    static final String INT = "{\"type\":\"record\",\"name\":\"R\",\"fields\":[{\"name\":\"a\",\"type\":\"int\"}]}";
    static final String WITH_DEFAULT =
        "{\"type\":\"record\",\"name\":\"R\",\"fields\":[{\"name\":\"a\",\"type\":\"int\"},{\"name\":\"b\",\"type\":\"int\",\"default\":1}]}";
    static final String WITHOUT_DEFAULT = WITH_DEFAULT.replace(",\"default\":1", "");
    static final String SHUFFLED =
        "{\"fields\":[{\"type\":{\"type\":\"string\"},\"name\":\"id\",\"doc\":\"d\"},"
            + "{\"name\":\"kind\",\"order\":\"ignore\",\"type\":{\"symbols\":[\"A\"],\"type\":\"enum\",\"name\":\"other.Kind\",\"default\":\"A\"}},"
            + "{\"name\":\"again\",\"type\":\"other.Kind\",\"aliases\":[\"x\"]},"
            + "{\"name\":\"hash\",\"type\":{\"size\":4,\"type\":\"fixed\",\"name\":\"Hash\",\"doc\":\"h\"}},"
            + "{\"name\":\"price\",\"type\":{\"logicalType\":\"decimal\",\"type\":\"bytes\",\"scale\":2,\"precision\":4}},"
            + "{\"name\":\"tags\",\"type\":{\"values\":{\"items\":\"string\",\"type\":\"array\"},\"type\":\"map\"}},"
            + "{\"default\":null,\"name\":\"next\",\"order\":\"ascending\",\"type\":[\"null\",\"shop.Order\"]}],"
            + "\"owner\":\"billing\",\"aliases\":[\"Old\"],\"name\":\"Order\",\"namespace\":\"shop\",\"type\":\"record\",\"doc\":\"o\"}";

    interface Call { void run() throws Exception; }

    static void check(boolean is, String what) {
        if (!is) throw new AssertionError(what);
    }

    static void fails(int status, int code, Call call) throws Exception {
        try {
            call.run();
        } catch (RestClientException error) {
            check(error.getStatus() == status && error.getErrorCode() == code, error.toString());
            return;
        }
        throw new AssertionError("expected " + code);
    }

    static CachedSchemaRegistryClient client(String url) {
        return new CachedSchemaRegistryClient(
            List.of(url), 100, List.of(new org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.avro.AvroSchemaProvider()), Map.of());
    }

    public static void main(String[] arguments) throws Exception {
        CachedSchemaRegistryClient one = client(arguments[0]);
        int first = one.register("a", new AvroSchema(INT));
        check(client(arguments[0]).getSchemaById(first).canonicalString().equals(INT), "text");
        check(one.testCompatibility("a", new AvroSchema(WITH_DEFAULT)), "compatible");
        check(!one.testCompatibility("a", new AvroSchema(WITHOUT_DEFAULT)), "incompatible");
        fails(409, 409, () -> one.register("a", new AvroSchema(WITHOUT_DEFAULT)));
        check(one.updateCompatibility("a", "NONE").equals("NONE") && one.getCompatibility("a").equals("NONE"), "level");
        int second = one.register("a", new AvroSchema(WITHOUT_DEFAULT));
        SchemaMetadata latest = one.getLatestSchemaMetadata("a");
        check(latest.getId() == second && latest.getVersion() == 2 && latest.getSchemaType().equals("AVRO"), "latest");
        check(one.getVersion("a", new AvroSchema(INT)) == 1 && one.getId("a", new AvroSchema(INT)) == first, "lookup");
        check(one.getAllVersions("a").equals(List.of(1, 2)) && one.getAllSubjects().contains("a"), "lists");

        ParsedSchema shuffled = new AvroSchema(SHUFFLED);
        int third = one.register("shuffled", shuffled);
        check(one.getLatestSchemaMetadata("shuffled").getSchema().equals(shuffled.canonicalString()), one.getLatestSchemaMetadata("shuffled").getSchema());
        check(one.register("shuffled", new AvroSchema(shuffled.canonicalString()), true) == third, "normalize");

        SchemaReference reference = new SchemaReference("R", "a", 1);
        ParsedSchema big = one.parseSchema("AVRO", "{\"type\":\"record\",\"name\":\"Big\",\"fields\":[{\"name\":\"r\",\"type\":\"R\"}]}", List.of(reference)).get();
        int fourth = one.register("big", big);
        check(client(arguments[0]).getSchemaById(fourth).references().equals(List.of(reference)), "references");
        fails(422, 42206, () -> one.deleteSubject("a"));
        check(one.deleteSubject("big").equals(List.of(1)) && one.deleteSubject("big", true).equals(List.of(1)), "deletion");
        check(one.deleteSchemaVersion("a", "1") == 1, "deletion of a version");
        fails(404, 40402, () -> one.getSchemaMetadata("a", 1));
        fails(404, 40401, () -> one.getLatestSchemaMetadata("none"));
        fails(404, 40403, () -> client(arguments[0]).getSchemaById(4711));
        check(one.setMode("READONLY").equals("READONLY") && one.getMode().equals("READONLY"), "mode");
        fails(422, 42205, () -> one.register("b", new AvroSchema(INT)));
        System.out.println("everything is as Confluent's client expects");
    }
}
