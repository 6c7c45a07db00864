// A broker in a container, which listens on a free port of this machine.
const net = require("node:net");
const { GenericContainer, Wait, getContainerRuntimeClient } = require("testcontainers");

const PORT = 9092;

function freePort() {
  return new Promise((resolve, reject) => {
    const server = net.createServer();
    server.on("error", reject);
    server.listen(0, () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}

/** Start a broker. Settings are by Kafka's names. Return the container and the clients' `bootstrapServers`. */
async function startKafka({ image = "twisted-kafka", settings = {} } = {}) {
  // The broker sends its address to clients, so the port is chosen before it starts.
  const port = await freePort();
  const { host } = (await getContainerRuntimeClient()).info.containerRuntime;
  const bootstrapServers = `${host}:${port}`;
  const all = { ...settings, "advertised.listeners": `PLAINTEXT://${bootstrapServers}` };
  const environment = Object.fromEntries(
    Object.entries(all).map(([key, value]) => {
      const name = key.replaceAll("_", "__").replaceAll("-", "___").replaceAll(".", "_").toUpperCase();
      return [`KAFKA_${name}`, String(value)];
    }),
  );
  const container = await new GenericContainer(image)
    .withExposedPorts({ container: PORT, host: port })
    .withEnvironment(environment)
    .withWaitStrategy(Wait.forLogMessage(/listens on/))
    .start();
  return { container, bootstrapServers };
}

module.exports = { startKafka };
