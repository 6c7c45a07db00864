import java.time.Duration;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;

/**
 * Counting.java BOOTSTRAP STATE_DIR PROTOCOL: counts the values of the topic "words", each once. The values go through a repartition
 * topic, the counts are in a state store with a changelog, and each new count goes to the topic "counted". PROTOCOL is that of its
 * group, "classic" or "streams". Ends when its input ends.
 */
public class Counting {
    public static void main(String[] args) throws Exception {
        Properties settings = new Properties();
        settings.put("application.id", "counting");
        settings.put("bootstrap.servers", args[0]);
        settings.put("state.dir", args[1]);
        settings.put("processing.guarantee", "exactly_once_v2");
        settings.put("num.stream.threads", "2");
        settings.put("commit.interval.ms", "100");
        settings.put("repartition.purge.interval.ms", "1000"); // DeleteRecords while it runs
        settings.put("statestore.cache.max.bytes", "0"); // a new count for each value
        settings.put("default.key.serde", Serdes.StringSerde.class);
        settings.put("default.value.serde", Serdes.StringSerde.class);
        if (args[2].equals("streams")) { // the broker has the times of its members
            settings.put("group.protocol", "streams");
            settings.put("application.server", "localhost:" + (1024 + args[1].hashCode() % 1000));
        } else {
            settings.put("main.consumer.session.timeout.ms", "3000");
            settings.put("main.consumer.heartbeat.interval.ms", "500");
        }
        settings.put("auto.offset.reset", "earliest");

        StreamsBuilder builder = new StreamsBuilder();
        builder.<String, String>stream("words")
            .groupBy((key, word) -> word, Grouped.as("by-word"))
            .count(Materialized.as("counts"))
            .toStream()
            .mapValues(String::valueOf)
            .to("counted", Produced.with(Serdes.String(), Serdes.String()));
        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        streams.setUncaughtExceptionHandler(error -> {
            error.printStackTrace();
            return StreamThreadExceptionResponse.REPLACE_THREAD;
        });
        streams.setStateListener((state, before) -> System.out.println(state));
        streams.start();
        while (System.in.read() >= 0) { }
        System.exit(streams.close(Duration.ofSeconds(30)) ? 0 : 1);
    }
}
