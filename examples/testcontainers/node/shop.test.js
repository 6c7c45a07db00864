// A test with a broker in a container.
const { after, before, test } = require("node:test");
const assert = require("node:assert");
const { Kafka, logLevel } = require("kafkajs");
const { startKafka } = require("./twisted-kafka-container.js");

let kafka;

before(async () => {
  kafka = await startKafka({ settings: { "num.partitions": 3 } });
});

after(async () => {
  await kafka?.container.stop();
});

test("an order is read", async () => {
  const client = new Kafka({ brokers: [kafka.bootstrapServers], logLevel: logLevel.NOTHING });
  const producer = client.producer();
  await producer.connect();
  await producer.send({ topic: "orders", messages: [{ value: "an order" }] });
  await producer.disconnect();
  const consumer = client.consumer({ groupId: "g" });
  await consumer.connect();
  await consumer.subscribe({ topic: "orders", fromBeginning: true });
  const value = await new Promise((resolve, reject) => {
    consumer.run({ eachMessage: async ({ message }) => resolve(message.value.toString()) }).catch(reject);
  });
  assert.strictEqual(value, "an order");
  await consumer.disconnect();
});
