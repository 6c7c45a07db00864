// npm install && npm test
const assert = require('node:assert/strict')
const { after, before, beforeEach, test } = require('node:test')
const { Kafka, logLevel } = require('kafkajs')
const { TestServer } = require('./test-server')

let server, kafka
before(async () => { server = await TestServer.start() })
after(() => server.stop())
beforeEach(async () => {
  await server.post('/reset')
  await server.post('/topics', { name: 'orders' })
  kafka = new Kafka({ clientId: 'shop', brokers: server.brokers, logLevel: logLevel.NOTHING, retry: { initialRetryTime: 10 } })
})

test('an order is stored once, though the leader refuses it at first', async () => {
  const fault = await server.post('/faults', { api: 'Produce', topic: 'orders', nth: 1, error: 'NOT_LEADER_OR_FOLLOWER' })
  const producer = kafka.producer()
  await producer.connect()
  await producer.send({ topic: 'orders', messages: [{ value: 'one book' }] })
  await producer.disconnect()
  assert.equal((await server.get(`/faults/${fault.id}`)).fired, 1)
  const { requests } = await server.get('/requests?api=Produce&topic=orders&client_id=shop&field.acks=-1')
  assert.deepEqual(requests.map((request) => request.error), ['NOT_LEADER_OR_FOLLOWER', null])
  const { records } = await server.get('/topics/orders/records')
  assert.deepEqual(records.map((record) => record.value), ['one book'])
})

test('the billing reads all orders, though its coordinator moves', async () => {
  await server.post('/topics/orders/records', { records: ['1', '2', '3'] })
  await server.post('/faults', { api: 'JoinGroup', group: 'billing', times: 1, error: 'NOT_COORDINATOR' })
  const billed = []
  const consumer = kafka.consumer({ groupId: 'billing' })
  await consumer.connect()
  await consumer.subscribe({ topic: 'orders', fromBeginning: true })
  await consumer.run({ autoCommitThreshold: 1, eachMessage: async ({ message }) => { billed.push(message.value.toString()) } })
  await server.post('/waits', { group: 'billing', lag: 0, timeout_s: 30 })
  assert.deepEqual(billed, ['1', '2', '3'])
  await consumer.disconnect()
  assert.equal((await server.post('/waits', { group: 'billing', state: 'Empty' })).seen, 'Empty')
})
