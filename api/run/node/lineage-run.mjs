// SPDX-License-Identifier: Apache-2.0
//
// Run commands as node:child_process does, and end everything that they started.
//
//   import { spawn } from './lineage-run.mjs'
//
//   const child = spawn('claude', ['-p', 'run the tests'], { stdio: 'inherit' })
//   child.on('close', code => console.log(code, child.report.verdict))
//   child.kill()     // ends everything that claude started
//
// What differs from node:child_process:
//
// - 'exit' and 'close' come when the command has exited and nothing that it started
//   is alive. A grandchild that holds a pipe cannot delay them.
// - kill() and an aborted signal end everything that the command started: SIGTERM, and
//   SIGKILL when the grace is over. kill('SIGKILL') leaves no grace. Other signals are
//   forwarded to the command.
// - pid is that of "lineage run" or "lineage init". The exit code is 128 + N if the
//   command died of signal N.
// - report says how each process ended, guarantee how far that can be trusted. It is
//   null if lineage could not run the command.
// - A command that is not there, or may not be run, is the same 'error'. What only exec
//   finds, such as a missing interpreter of a script, is exit code 126 or 127.
//
// One file, no dependencies, Node 18 or newer, Linux. Copy it. It needs the lineage program.

import child_process from 'node:child_process'
import fs from 'node:fs'
import http from 'node:http'
import os from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

// What ends the processes that a command started; a greater one is stronger.
export const Guarantee = Object.freeze({
  SUBREAPER: 1, // "lineage init", which finds the descendants in /proc
  SESSION: 2, //   a session of the daemon, whose document has the guarantee level
})

// The host offers less than is required. Nothing was started.
export class GuaranteeError extends Error {}

// The host has no lineage program. Nothing was started.
export class NotInstalledError extends Error {}

const askTime = 2000 // ms that the daemon may take to answer
const createTime = 30000 // ms until "lineage run" gives up
const defaultGrace = 5000 // ms, of "lineage init"
const waitDelay = 5000 // ms that an outsider may hold a pipe when all is over

const sleep = ms => new Promise(resolve => setTimeout(resolve, ms))

// spawn is child_process.spawn with five options: name, grace (ms), require (a
// Guarantee), lineage (path of the program) and socket (of the daemon). The child has
// guarantee, report, session() and end().
export function spawn(command, args = [], options = {}) {
  if (!Array.isArray(args)) [args, options] = [[], args]
  const { name, grace, require, lineage = 'lineage', socket, shell, argv0, signal, timeout, killSignal, ...rest } = options
  if (shell) [command, args] = [shell === true ? '/bin/sh' : shell, ['-c', [command, ...args].join(' ')]]
  if (argv0 !== undefined) throw new TypeError('argv0 is not supported: lineage is what is executed')
  const run = { grace, socket: socket ?? (process.env.LINEAGE_SOCKET || '/run/lineage/lineage.sock') }
  const program = find(lineage)
  if (!program) {
    throw new NotInstalledError(`the lineage program is not installed: install the package lineage (https://github.com/lineage-ebpf/lineage), or name its path: ${lineage} not found`)
  }
  const why = noSession(program, run.socket)
  const guarantee = why ? Guarantee.SUBREAPER : Guarantee.SESSION
  if (require && guarantee < require) {
    throw new GuaranteeError(`guarantee ${nameOf(require)} is required, this host has ${nameOf(guarantee)}: ${why}`)
  }
  signal?.throwIfAborted()
  const missing = unfit(command, rest.env ?? process.env, rest.cwd)
  if (missing) return fail(command, args, missing, rest)
  run.dir = fs.mkdtempSync(path.join(os.tmpdir(), 'lineage-run-'))
  if (rest.uid !== undefined) fs.chownSync(run.dir, rest.uid, rest.gid ?? rest.uid)
  const words = [why ? 'init' : 'run', '--quiet', `--report=${receipt(run)}`]
  if (grace !== undefined) words.push(`--grace=${Math.trunc(grace)}ms`)
  if (name && !why) words.push(`--name=${name}`)
  rest.env = { ...(rest.env ?? process.env), LINEAGE_SOCKET: run.socket }
  const child = child_process.spawn(program, [...words, '--', command, ...args], rest)
  const send = child.kill.bind(child)
  const begin = now => {
    if (over(child)) return false
    end(child, run, send, now).catch(() => send('SIGKILL')) // the session of a dead owner ends in the kernel
    return true
  }
  Object.assign(child, {
    guarantee,
    report: null,
    end: () => begin(false),
    kill: (sig = 'SIGTERM') => {
      if (sig === 'SIGTERM' || sig === 15) return begin(false)
      if (sig === 'SIGKILL' || sig === 9) return begin(true)
      return send(sig)
    },
    session: () => session(child, run),
  })
  const abort = () => begin(false)
  signal?.addEventListener('abort', abort)
  const timer = timeout > 0 ? setTimeout(() => child.kill(killSignal), timeout) : undefined
  // First of all listeners: the others find the report.
  child.prependListener('exit', () => {
    signal?.removeEventListener('abort', abort)
    clearTimeout(timer)
    finish(child, run)
    // A process outside may hold a pipe: 'close' does not wait for it for ever.
    setTimeout(() => child.stdio.forEach(s => s?.destroy()), waitDelay).unref()
  })
  child.once('error', () => fs.rmSync(run.dir, { recursive: true, force: true }))
  return child
}

// unfit says what exec would say of a command: the program that is started is lineage.
function unfit(command, env, cwd = '.') {
  if (cwd instanceof URL) cwd = fileURLToPath(cwd)
  let code = 'ENOENT'
  for (const folder of command.includes('/') ? [''] : (env.PATH ?? '/usr/local/bin:/bin:/usr/bin').split(':')) {
    const file = path.resolve(cwd, folder, command)
    try {
      if (fs.statSync(file).isFile()) {
        fs.accessSync(file, fs.constants.X_OK)
        return
      }
      code = 'EACCES'
    } catch (err) {
      if (err.code === 'EACCES') code = 'EACCES'
    }
  }
  return code
}

// fail starts what cannot be started, and gives its error the caller's words.
function fail(command, args, code, options) {
  const child = child_process.spawn(code === 'ENOENT' ? '/proc/none' : '/', { ...options, cwd: undefined })
  child.spawnfile = command
  child.spawnargs = [command, ...args]
  child.prependOnceListener('error', err => {
    const syscall = `spawn ${command}`
    Object.assign(err, { message: `${syscall} ${code}`, code, errno: -os.constants.errno[code], syscall, path: command, spawnargs: args })
  })
  return Object.assign(child, { guarantee: undefined, report: null, end: () => false, kill: () => false, session: async () => null })
}

const nameOf = guarantee => Object.keys(Guarantee).find(k => Guarantee[k] === guarantee)

const over = child => child.pid === undefined || child.exitCode !== null || child.signalCode !== null

const receipt = run => path.join(run.dir, 'receipt.json')

// noSession is the reason why "lineage run" could not make a session; undefined: it can. It
// blocks for some ms, as spawn does, and is decided before the command starts: its standard
// input can be read once.
function noSession(program, socket) {
  const env = { ...process.env, LINEAGE_SOCKET: socket }
  const ask = words => child_process.spawnSync(program, words, { env, timeout: askTime, killSignal: 'SIGKILL', encoding: 'utf8' })
  try {
    if (JSON.parse(ask(['version', '-o', 'json']).stdout).daemon) return
  } catch {}
  if (process.geteuid() !== 0 || fs.existsSync(socket)) return `no daemon answers at ${socket}`
  if (ask(['doctor']).status !== 0) return 'lineage doctor: no sessions here' // else "lineage run" starts the daemon
}

function find(name) {
  const folders = name.includes('/') ? ['.'] : (process.env.PATH ?? '').split(':')
  for (const folder of folders) {
    const file = path.resolve(folder, name)
    try {
      fs.accessSync(file, fs.constants.X_OK)
      if (fs.statSync(file).isFile()) return file
    } catch {}
  }
}

// request asks the daemon; what it refuses is an error.
function request(socketPath, method, url, body) {
  return new Promise((resolve, reject) => {
    const req = http.request({ socketPath, method, path: url, timeout: askTime }, res => {
      let text = ''
      res.setEncoding('utf8').on('data', part => (text += part)).on('error', reject).on('end', () => {
        try {
          const doc = JSON.parse(text)
          if (res.statusCode >= 300) reject(new Error(doc.error?.message ?? `status ${res.statusCode}`))
          else resolve(doc)
        } catch (err) {
          reject(err)
        }
      })
    })
    req.on('timeout', () => req.destroy(new Error(`no answer within ${askTime} ms`))).on('error', reject)
    req.end(body && JSON.stringify(body))
  })
}

// session gives the session's document; it waits until there is a session. null: there
// is none.
async function session(child, run) {
  if (child.guarantee === Guarantee.SUBREAPER) return null
  if (child.report?.session) return request(run.socket, 'GET', `/v1/sessions/${child.report.session}`)
  for (const until = Date.now() + createTime; Date.now() < until && !over(child); await sleep(5)) {
    const list = await request(run.socket, 'GET', '/v1/sessions').catch(absent)
    const found = list.items.find(s => s.owner?.pid === child.pid)
    if (found) return found
  }
  return null
}

// absent: the daemon is being started.
function absent(err) {
  if (err.code !== 'ENOENT' && err.code !== 'ECONNREFUSED') throw err
  return { items: [] }
}

async function end(child, run, send, now) {
  if (child.guarantee === Guarantee.SUBREAPER) return endInit(child, send, now ? 0 : (run.grace ?? defaultGrace))
  const s = await session(child, run)
  if (s) await request(run.socket, 'POST', `/v1/sessions/${s.id}/end`, now ? { now: true } : {})
}

// endInit: SIGTERM is forwarded. When the grace is over the command is killed, and a
// second SIGTERM ends the grace of what it leaves.
async function endInit(child, send, grace) {
  send('SIGTERM')
  const gone = async ms => {
    for (const until = Date.now() + ms; !over(child); await sleep(10)) if (Date.now() >= until) return false
    return true
  }
  if (await gone(grace)) return
  for (const pid of fs.readdirSync('/proc').filter(p => /^\d+$/.test(p) && parent(p) === child.pid)) {
    try {
      process.kill(Number(pid), 'SIGKILL')
    } catch {}
  }
  if (!(await gone(100))) send('SIGTERM')
}

// parent reads /proc/PID/stat; undefined of a process that is gone.
function parent(pid) {
  try {
    const text = fs.readFileSync(`/proc/${pid}/stat`, 'latin1')
    return Number(text.slice(text.lastIndexOf(')') + 2).split(' ')[1])
  } catch {}
}

// finish reads the report.
function finish(child, run) {
  try {
    child.report = JSON.parse(fs.readFileSync(receipt(run), 'utf8'))
  } catch {}
  fs.rmSync(run.dir, { recursive: true, force: true })
}
