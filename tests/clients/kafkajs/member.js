// member.js BOOTSTRAP TOPIC GROUP: be a member of a group until SIGTERM, and print "partition offset" of what was read.
const { Kafka, logLevel } = require('kafkajs')

const [bootstrap, topic, groupId] = process.argv.slice(2)
const kafka = new Kafka({ clientId: 'kafkajs-member', brokers: [bootstrap], logLevel: logLevel.NOTHING, retry: { retries: 30, maxRetryTime: 1000 } })
const consumer = kafka.consumer({ groupId, sessionTimeout: 6000, heartbeatInterval: 500 })

async function main() {
  await consumer.connect()
  await consumer.subscribe({ topic, fromBeginning: true })
  await consumer.run({
    autoCommitInterval: 500,
    eachMessage: async ({ partition, message }) => { process.stdout.write(`${partition} ${message.offset}\n`) },
  })
}

process.on('SIGTERM', async () => {
  await consumer.disconnect()
  process.exit(0)
})
main().catch((error) => { console.error(error); process.exit(1) })
