// transact.js BOOTSTRAP TOPIC GROUP: commit, abort and commit with a group's offset, each in a transaction; print what is in the topic.
const { Kafka, logLevel } = require('kafkajs')

const [bootstrap, topic, groupId] = process.argv.slice(2)
const kafka = new Kafka({ clientId: 'kafkajs-test', brokers: [bootstrap], logLevel: logLevel.ERROR })
const producer = kafka.producer({ transactionalId: `tx-${groupId}`, maxInFlightRequests: 1, idempotent: true })

async function main() {
  await producer.connect()
  for (const [value, ends] of [['one', 'commit'], ['two', 'abort'], ['three', 'commit']]) {
    const transaction = await producer.transaction()
    await transaction.send({ topic, messages: [{ value, partition: 0 }] })
    await transaction.sendOffsets({ consumerGroupId: groupId, topics: [{ topic, partitions: [{ partition: 0, offset: value === 'two' ? '99' : '1' }] }] })
    await transaction[ends]()
  }
  await producer.disconnect()
  const admin = kafka.admin()
  await admin.connect()
  const [{ partitions }] = await admin.fetchOffsets({ groupId, topics: [topic] })
  await admin.disconnect()
  console.log(partitions[0].offset)
}

main().then(() => {}, (error) => { console.error(error); process.exit(1) })
