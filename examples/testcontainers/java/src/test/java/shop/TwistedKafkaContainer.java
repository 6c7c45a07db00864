package shop;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.ServerSocket;
import org.testcontainers.containers.GenericContainer;
import org.testcontainers.containers.wait.strategy.Wait;
import org.testcontainers.utility.DockerImageName;

/** A broker in a container, which listens on a free port of this machine. */
public class TwistedKafkaContainer extends GenericContainer<TwistedKafkaContainer> {
    private static final int PORT = 9092;
    private final int port = freePort();

    public TwistedKafkaContainer() {
        this("twisted-kafka");
    }

    public TwistedKafkaContainer(String image) {
        super(DockerImageName.parse(image));
        // The broker sends its address to clients, so the port is chosen before it starts.
        addFixedExposedPort(port, PORT);
        waitingFor(Wait.forLogMessage(".*listens on.*", 1));
    }

    /** Sets a setting by Kafka's name. */
    public TwistedKafkaContainer withSetting(String key, String value) {
        String name = key.replace("_", "__").replace("-", "___").replace(".", "_").toUpperCase();
        return withEnv("KAFKA_" + name, value);
    }

    @Override
    protected void configure() {
        withSetting("advertised.listeners", "PLAINTEXT://" + getBootstrapServers());
    }

    /** The {@code bootstrap.servers} of clients. */
    public String getBootstrapServers() {
        return getHost() + ":" + port;
    }

    private static int freePort() {
        try (ServerSocket free = new ServerSocket(0)) {
            return free.getLocalPort();
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }
}
