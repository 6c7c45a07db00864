// flow.js BOOTSTRAP TOPIC CLIENT produce|consume: send records of 10,000 bytes, or read all records, until killed.
const { Kafka, logLevel } = require('kafkajs')

const [bootstrap, topic, clientId, what] = process.argv.slice(2)
const kafka = new Kafka({ clientId, brokers: [bootstrap], logLevel: logLevel.ERROR, requestTimeout: 120000 })

async function produce() {
  const producer = kafka.producer()
  await producer.connect()
  const messages = Array.from({ length: 10 }, () => ({ value: Buffer.alloc(10000, 'x') }))
  for (;;) await producer.send({ topic, messages })
}

async function consume() {
  const consumer = kafka.consumer({ groupId: `flow-${process.pid}` })
  await consumer.connect()
  await consumer.subscribe({ topic, fromBeginning: true })
  await consumer.run({ eachBatch: async () => {} })
}

(what === 'produce' ? produce() : consume()).catch((error) => { console.error(error); process.exit(1) })
