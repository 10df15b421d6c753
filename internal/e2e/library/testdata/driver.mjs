// driver.mjs SHAPE LINEAGE PROGRAM ARGS...: starts the program through lineage-run.mjs,
// with its output in a pipe. It prints a line when that is done, ends everything when it
// reads one, and prints what it knows. SHAPE is spawn.
import readline from 'node:readline'

const { spawn, Guarantee } = await import(`${process.env.LNGTEST_LIBRARY}/lineage-run.mjs`)
const [, lineage, program, ...args] = process.argv.slice(2)

const say = document => console.log(JSON.stringify(document))
const lines = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]()
const told = async () => (await lines.next()).value

const child = spawn(program, args, { lineage, grace: 500, name: 'library', stdio: ['ignore', 'pipe', 'inherit'] })
const closed = new Promise(resolve => child.once('close', resolve))
child.stdout.resume()
say({ session: (await child.session())?.id })
if ((await told()) === 'end') child.kill()
const code = await closed
const guarantee = Object.keys(Guarantee).find(k => Guarantee[k] === child.guarantee).toLowerCase()
say({ code, guarantee, verdict: child.report?.verdict, why: child.report?.verdict_why })
process.stdin.destroy()
