// read.js BOOTSTRAP TOPIC COUNT GROUP: print the first COUNT values of a topic, one a line, read as a member of a group.
const { Kafka, CompressionTypes, CompressionCodecs, logLevel } = require('kafkajs')
const lz4 = require('lz4js')
const fzstd = require('fzstd')
CompressionCodecs[CompressionTypes.Snappy] = require('kafkajs-snappy')
CompressionCodecs[CompressionTypes.LZ4] = () => ({ decompress: async (data) => Buffer.from(lz4.decompress(data)) })
CompressionCodecs[CompressionTypes.ZSTD] = () => ({ decompress: async (data) => Buffer.from(fzstd.decompress(data)) })

const [bootstrap, topic, count, groupId] = process.argv.slice(2)
const kafka = new Kafka({ clientId: 'kafkajs-test', brokers: [bootstrap], logLevel: logLevel.ERROR })
const consumer = kafka.consumer({ groupId, maxBytesPerPartition: 4 * 1024 * 1024 })
let left = Number(count)

async function main() {
  await consumer.connect()
  await consumer.subscribe({ topic, fromBeginning: true })
  await new Promise((resolve, reject) => {
    consumer.on(consumer.events.CRASH, (event) => reject(event.payload.error))
    consumer.run({
      eachBatch: async ({ batch }) => {
        const values = []
        for (const message of batch.messages) {
          if (left-- > 0) values.push(message.value, Buffer.from('\n'))
        }
        process.stdout.write(Buffer.concat(values))
        if (left <= 0) resolve()
      },
    }).catch(reject)
  })
  await consumer.disconnect()
}

main().then(() => {}, (error) => { console.error(error); process.exit(1) })
