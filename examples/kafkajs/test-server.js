// Starts `twisted-kafka test-server` (in a clone: pip install .), and calls its control API.
const { spawn } = require('node:child_process')
const { once } = require('node:events')
const readline = require('node:readline')

class TestServer {
  static async start (...options) {
    const command = process.env.TWISTED_KAFKA || 'twisted-kafka'
    const child = spawn(command, ['test-server', ...options], { stdio: ['pipe', 'pipe', 'inherit'] })
    const lines = readline.createInterface({ input: child.stdout })
    const ended = new Promise((resolve, reject) => {
      child.once('error', reject)
      child.once('exit', (status) => reject(new Error(`test-server ended with ${status}`)))
    })
    const [line] = await Promise.race([once(lines, 'line'), ended])
    ended.catch(() => {})
    return new TestServer(child, JSON.parse(line))
  }

  constructor (child, told) {
    this.child = child
    this.told = told
    this.brokers = told.bootstrap_servers.split(',')
  }

  async call (method, path, body) {
    const response = await fetch(this.told.control_url + path, {
      method,
      headers: { authorization: `Bearer ${this.told.token}` },
      body: body && JSON.stringify(body)
    })
    const answer = await response.json()
    if (!response.ok) throw new Error(answer.error)
    return answer
  }

  get (path) { return this.call('GET', path) }
  post (path, body) { return this.call('POST', path, body) }

  async stop () {
    this.child.stdin.end() // it ends with its stdin
    await once(this.child, 'exit')
  }
}

module.exports = { TestServer }
