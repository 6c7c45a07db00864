// sasl.js BOOTSTRAP MECHANISM USER PASSWORD [CA]: log in, over TLS if there is a file of trusted certificates, and print the brokers' number.
const fs = require('fs')
const { Kafka, logLevel } = require('kafkajs')

const [bootstrap, mechanism, username, password, ca] = process.argv.slice(2)
const sasl = mechanism === 'oauthbearer'
  ? { mechanism, oauthBearerProvider: async () => ({ value: password }) }
  : { mechanism, username, password }
const kafka = new Kafka({
  clientId: 'kafkajs-sasl',
  brokers: [bootstrap],
  ssl: ca ? { ca: [fs.readFileSync(ca)] } : false,
  sasl,
  retry: { retries: 0 },
  logLevel: logLevel.NOTHING,
})
const admin = kafka.admin()

async function main() {
  await admin.connect()
  console.log((await admin.describeCluster()).brokers.length)
  await admin.disconnect()
}

main().then(() => {}, (error) => { console.error(error.message); process.exit(1) })
