/**
 * The bundle: what each script says of itself in its header, what the manifest says of it to clients in any language,
 * and what is really called, must be the same thing. And the core works for somebody who has the manifest and plain RESP
 * and nothing of ours.
 */
import { execFileSync, spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { maintain } from '../../src/maintenance/maintenance.ts'
import {
  DEFAULT_BACKOFF_BASE_MS,
  DEFAULT_BACKOFF_MAX_MS,
  DEFAULT_LEASE_MS,
  DEFAULT_MAX_ATTEMPTS,
  MAX_CLAIM_BYTES,
} from '../../src/protocol/limits.ts'
import { parseRefusal } from '../../src/protocol/refusals.ts'
import { SCRIPTS } from '../../src/protocol/scripts.generated.ts'
import { createDatabase } from '../../src/queue/database.ts'
import type { Command, RedisPort } from '../../src/queue/redis.ts'
import { createUpstashPort } from '../../src/queue/upstash.ts'
import { connectResp, type Resp, RespError, RespInteger, type RespReply } from '../../src/stack/resp.ts'
import { type Manifest, readBundle, readHeader, type ScriptContract } from '../../src/tools/bundle.ts'
import { bareRedis } from '../queue/support/bare.ts'
import { handOn } from '../queue/support/hand.ts'
import { build, type StateName } from '../queue/support/states.ts'
import { freshQueue } from '../support/api.ts'
import { census, keysOf } from '../support/census.ts'
import { REST_TOKEN, sharedRedis } from '../support/redis.ts'

const lua = new URL('../../lua/', import.meta.url)
const source = (name: string): string => readFileSync(new URL(`${name}.lua`, lua), 'utf8')
const manifestText = readFileSync(new URL('manifest.json', lua), 'utf8')
const manifest = JSON.parse(manifestText) as Manifest
const entries: readonly ScriptContract[] = [...manifest.core, ...manifest.extensions]
const entry = (name: string): ScriptContract => {
  const found = entries.find((one) => one.name === name)
  if (found === undefined) throw new Error(`${name} is not in the manifest`)
  return found
}
const names = readdirSync(lua)
  .filter((file) => file.endsWith('.lua'))
  .map((file) => file.replace('.lua', ''))

describe('the manifest', () => {
  test('is what the headers say, and so is the registry of the source', () => {
    const { manifestText: derived, registryText } = readBundle()
    expect(manifestText).toBe(derived)
    const registry = new URL('../../src/protocol/scripts.generated.ts', import.meta.url)
    expect(readFileSync(registry, 'utf8')).toBe(registryText)
  })

  test('lists every file once, with its own bytes and SHA-1', () => {
    expect(entries.map(({ name }) => name).sort()).toEqual(names.toSorted())
    for (const { name, file, sha1, bytes } of entries) {
      const content = readFileSync(new URL(file, lua))
      expect([file, bytes, sha1]).toEqual([
        ...[`${name}.lua`, content.length, createHash('sha1').update(content).digest('hex')],
      ])
    }
  })

  test('lays the six core scripts out as the contract does', () => {
    const row = 'emq:{q}:job:<id>'
    const [pending, active, schedule, dead] = ['pending', 'active', 'schedule', 'dead'].map(
      (set) => `emq:{q}:${set}`,
    )
    const head = manifest.core.map(({ name, keys, args }) => ({ name, keys, args }))
    expect(head.map(({ name }) => name)).toEqual([
      ...['enqueue', 'claim', 'complete', 'retry', 'promote', 'reap'],
    ])
    const [enqueue, claim, complete, retry, promote, reap] = head
    expect(enqueue).toMatchObject({ keys: [row, pending], args: ['id', 'payload'] })
    expect(claim).toMatchObject({ keys: [pending, active], args: ['jobPrefix', 'leaseMs'] })
    expect(complete?.keys.slice(0, 2)).toEqual([active, row])
    expect(complete?.args).toEqual(['id', 'token'])
    expect(retry?.keys.slice(0, 4)).toEqual([active, schedule, dead, row])
    expect(retry?.args).toEqual(['id', 'token', 'delayMs', 'maxAttempts', 'error', 'jitter?'])
    expect(promote).toMatchObject({ keys: [schedule, pending], args: ['jobPrefix', 'limit', 'report?'] })
    expect(reap?.keys.slice(0, 2)).toEqual([active, pending])
    expect(reap?.args).toEqual(['jobPrefix', 'limit', 'jitter?'])
  })

  test('has the form that clients read', () => {
    expect(Object.keys(manifest)).toEqual(['version', 'core', 'extensions', 'refusals'])
    expect(manifest.version).toBe(1)
    for (const contract of entries) {
      const { keys, optionalKeys = [], keysEach = [], args, argsEach = [], replies } = contract
      for (const key of [...keys, ...optionalKeys, ...keysEach])
        expect(key).toMatch(/^(emq:\{q\}:[a-z:-]+(<\w+>)?|emq:\{q\}:<set>|\{emq\}:[a-z]+)$/)
      for (const word of [...args, ...argsEach]) expect(word).toMatch(/^[a-z][A-Za-z]*\??$/)
      // What may be left out stands last.
      const optional = args.map((word) => word.endsWith('?'))
      expect(optional).toEqual(optional.toSorted())
      expect(replies.length).toBeGreaterThan(0)
      expect(typeof contract.repeatable).toBe('boolean')
    }
  })

  test('lists every class word that a script refuses with, and the source knows each of them', () => {
    const used = new Set(names.flatMap((name) => source(name).match(/\bEMQ[A-Z]+/g) ?? []))
    expect([...used].sort()).toEqual(Object.keys(manifest.refusals).sort())
    for (const word of used) expect(parseRefusal(`${word} whatever it is`)).toBeDefined()
  })

  test('calls repeatable only what may be run twice: no claim without a claim id', () => {
    const once = entries.filter(({ repeatable }) => !repeatable).map(({ name }) => name)
    expect(once).toEqual(['claim', 'claim_many'])
    for (const { name, sha1, repeatable } of entries) {
      const registered = SCRIPTS[name as keyof typeof SCRIPTS]
      expect([registered.sha1, registered.repeatable, registered.source]).toEqual([
        ...[sha1, repeatable, source(name)],
      ])
    }
  })
})

describe('the sources', () => {
  test('of the claim are the 410 bytes that other clients pin', () => {
    const bytes = readFileSync(new URL('claim.lua', lua))
    expect(bytes).toHaveLength(410)
    expect(createHash('sha1').update(bytes).digest('hex')).toBe('2319de1e94e21dd355032c7a25b90636b53f36cd')
    expect(SCRIPTS.claim.source).toBe(bytes.toString('latin1'))
  })

  test('are kept to LF in every checkout', () => {
    for (const name of names) {
      expect(source(name)).not.toContain('\r')
      expect(source(name).endsWith('\n')).toBe(true)
      const told = execFileSync('git', ['check-attr', 'text', 'eol', '--', `lua/${name}.lua`], {
        cwd: new URL('..', import.meta.url).pathname,
        encoding: 'utf8',
      })
      expect(told.trim().split('\n')).toEqual([`lua/${name}.lua: text: set`, `lua/${name}.lua: eol: lf`])
    }
  })

  test('open with a complete contract', () => {
    for (const name of names.filter((one) => one !== 'claim')) {
      const header = readHeader(source(name))
      expect(header.get(name)?.join()).toMatch(/^[a-z].*\.$/)
      for (const word of ['MOVE', 'KEYS', 'REPLIES', 'REPEATABLE', 'COST'])
        expect(header.get(word)?.join()).toMatch(/\S/)
      expect((header.get('ARGV') ?? header.get('ARGV EACH'))?.join()).toMatch(/\S/)
    }
  })

  test('use the defaults and limits of the source', () => {
    const [policyOf, claimMany, list] = ['blocks/policyOf', 'claim_many', 'list'].map(source)
    for (const [field, value] of Object.entries({
      maxAttempts: DEFAULT_MAX_ATTEMPTS,
      backoffBaseMs: DEFAULT_BACKOFF_BASE_MS,
      backoffMaxMs: DEFAULT_BACKOFF_MAX_MS,
    }))
      expect(policyOf).toContain(`${field} = whole(${field}) or ${value},`)
    expect(claimMany).toContain(`leaseOfQueue or ${DEFAULT_LEASE_MS})`)
    for (const text of [claimMany, list]) expect(text).toMatch(/MAX_BYTES(, \w+)* = 4 \* 1024 \* 1024\b/)
    expect(MAX_CLAIM_BYTES).toBe(4 * 1024 * 1024)
  })

  test('read the clock of the server in one place, and never a clock of the caller', () => {
    for (const name of names) {
      expect((source(name).match(/'TIME'/g) ?? []).length).toBeLessThanOrEqual(1)
      expect(entry(name).args).not.toContain('now')
    }
  })
})

/** The keys of a template, filled in. */
function fill(template: string, queue: string): RegExp {
  const literal = template
    .replace('{q}', `{${queue}}`)
    .replace(/[{}.:]/g, '\\$&')
    .replace(/<(id|key|claimId)>/, '[A-Za-z0-9._:-]+')
    // Empty without a key for the batch.
    .replace('<batchKey>', '[A-Za-z0-9._:-]*')
    .replace('<set>', '(pending|active|schedule|dead)')
  return new RegExp(`^${literal}$`)
}

describe('npm run bundle', () => {
  let folder: string
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'bundle-'))
    const files = [
      'lua',
      'src/tools/bundle.ts',
      'src/protocol/manifest.ts',
      'src/protocol/scripts.generated.ts',
    ]
    for (const file of files)
      cpSync(new URL(`../../${file}`, import.meta.url), join(folder, file), { recursive: true })
    writeFileSync(join(folder, 'package.json'), '{"type":"module"}')
    return () => rmSync(folder, { recursive: true })
  })

  function bundle(...args: string[]) {
    const { status, stderr } = spawnSync(process.execPath, ['src/tools/bundle.ts', ...args], {
      cwd: folder,
      encoding: 'utf8',
    })
    return { status, faults: stderr.split('\n').filter((line) => /^(lua|src)\//.test(line)) }
  }

  function edit(file: string, from: string, to: string): void {
    const text = readFileSync(join(folder, file), 'utf8')
    expect(text).toContain(from)
    writeFileSync(
      join(folder, file),
      text.replace(from, () => to),
    )
  }

  test('finds no difference in what is committed', () => {
    expect(bundle('--check')).toEqual({ status: 0, faults: [] })
  })

  test.each([
    ['a block of a script', "'WRONGTYPE'", "'wrongtype'", 'block read differs from lua/blocks/read.lua'],
    ['the prologue', 'dead = KEYS[3]', 'dead = KEYS[2]', 'the prologue differs from the header'],
    [
      'the header',
      'emq:{q}:dead\n--   row       emq:{q}:job:<id>\n',
      'emq:{q}:dead\n--   other     emq:{q}:dead\n--   row       emq:{q}:job:<id>\n',
      'the prologue differs from the header',
    ],
  ])('--check names the script in which %s was edited, and a run repairs it', (_, from, to, fault) => {
    const before = readFileSync(join(folder, 'lua/retry.lua'), 'utf8')
    edit('lua/retry.lua', from, to)
    const { status, faults } = bundle('--check')
    expect([status, faults[0]]).toEqual([1, `lua/retry.lua: ${fault}`])
    expect(bundle()).toEqual({ status: 0, faults: [] })
    expect(bundle('--check')).toEqual({ status: 0, faults: [] })
    if (!to.includes('other')) expect(readFileSync(join(folder, 'lua/retry.lua'), 'utf8')).toBe(before)
  })

  test('--check names every script whose block differs from the file of the block', () => {
    edit('lua/blocks/redrive.lua', "'unknown'", "'none'")
    const fault = 'block redrive differs from lua/blocks/redrive.lua'
    expect(bundle('--check').faults.slice(0, 2)).toEqual([
      ...[`lua/redrive.lua: ${fault}`, `lua/redrive_many.lua: ${fault}`],
    ])
  })

  test('--check names a derived file that was edited', () => {
    edit('lua/manifest.json', '"version": 1', '"version": 2')
    const faults = ['lua/manifest.json differs from the scripts']
    expect(bundle('--check')).toEqual({ status: 1, faults })
  })

  test.each([
    [
      'a block that is in no file',
      'retry',
      '-- block: read\n',
      '-- block: reads\n-- end: reads\n-- block: read\n',
    ],
    ['a block without an end', 'retry', '-- end: read\n', ''],
    ['a block that it does not use', 'enqueue', 'local found = occupant(keys.row)', 'local found'],
    [
      'a block above the one that this needs',
      'enqueue',
      '-- block: read\n',
      '-- block: occupant\n-- end: occupant\n-- block: read\n',
    ],
    ['KEYS outside of the prologue', 'enqueue', "'DEL', keys.row", "'DEL', KEYS[1]"],
    ['a key that is not in the header', 'enqueue', "'DEL', keys.row", "'DEL', keys.rows"],
    ['a name that is not declared', 'enqueue', "'DEL', keys.row", "'DEL', row"],
    ['no prologue', 'enqueue', '-- prologue\n', ''],
  ])('rejects a script with %s', (_, name, from, to) => {
    edit(`lua/${name}.lua`, from, to)
    for (const args of [[], ['--check']]) {
      const { status, faults } = bundle(...args)
      expect([status, faults.length]).toEqual([1, 1])
      expect(faults[0]).toMatch(new RegExp(`^lua/${name}.lua: `))
    }
  })

  test('rejects a block that uses a name of a script, and one that no script has', () => {
    edit('lua/blocks/setOf.lua', 'keys.dead', 'args.dead')
    const fault = 'block setOf uses args, which is neither a parameter nor a block above it'
    expect(bundle('--check')).toEqual({ status: 1, faults: [`lua/claim_many.lua: ${fault}`] })
    edit('lua/blocks/setOf.lua', 'args.dead', 'keys.dead')
    writeFileSync(join(folder, 'lua/blocks/other.lua'), 'local function other() end\n')
    expect(bundle()).toEqual({ status: 1, faults: ['lua/blocks/other.lua: no script has this block'] })
  })
})

describe('what the queue calls', () => {
  const redis = bareRedis()

  test('is what the manifest says, for every script: its keys, in their order, and as many arguments', async () => {
    const calls: Command[] = []
    const port: RedisPort = {
      send(commands) {
        calls.push(...commands.filter(([name]) => name === 'EVALSHA'))
        return redis.port.send(commands)
      },
    }
    const database = createDatabase(port, { wireAccept: [], wireClaim: undefined })
    const name = freshQueue()
    const queue = database.queue(name)
    const id = 'JOB00000000001'
    const retry = { action: 'retry', id, token: 1 } as const
    const page = {
      state: 'pending',
      order: 'oldest',
      limit: 10,
      withErrors: true,
      withPayload: true,
    } as const
    await queue.enqueue(id, 'x')
    await queue.claim({})
    await queue.retry(id, 1, { delayMs: 0 })
    await queue.promote(10)
    await queue.reap(10)
    await queue.complete(id, 1)
    await queue.enqueueMany([
      { payload: 'a' },
      { payload: 'b', idempotencyKey: 'k', delayMs: 5, startBy: 7, maxAttempts: 3 },
      { payload: 'c', idempotencyKey: 'l', id: 'JOB00000000002', runAt: 5 },
    ])
    await queue.claim({ limit: 2 })
    await queue.claim({ limit: 2, claimId: 'c' })
    await queue.settle([retry, { action: 'extend', id, token: 1, leaseMs: 10 }])
    await queue.list(page)
    await queue.list({ ...page, state: 'active' })
    await queue.redrive(id)
    await queue.redriveMany({ limit: 5 })
    await queue.reschedule(id, { delayMs: 0 })
    await queue.remove(id)
    for (const state of ['pending', 'scheduled', 'dead'] as const) await queue.purge(state, 1)
    await queue.enqueueMany([{ payload: 'd' }])
    await queue.audit({ limit: 10 })
    await maintain(database)

    const called = new Set<string>()
    for (const [, sha1, count, ...rest] of calls) {
      const { name: script, keys, ...contract } = entries.find((one) => one.sha1 === sha1) ?? entry('unknown')
      called.add(script)
      const [given, args] = [rest.slice(0, Number(count)).map(String), rest.slice(Number(count))]
      const [each = '', eachWithKey] = contract.keysEach ?? []
      const jobs = each === '' ? [] : given.slice(keys.length).filter((key) => fill(each, name).test(key))
      const keyed = eachWithKey === undefined ? 0 : given.length - keys.length - jobs.length
      const optional =
        each === '' ? given.slice(keys.length).map((_, nth) => contract.optionalKeys?.[nth]) : []
      const templates = [
        ...keys,
        ...optional,
        ...Array(jobs.length).fill(each),
        ...Array(keyed).fill(eachWithKey),
      ]
      expect([script, given.length]).toEqual([script, templates.length])
      for (const [nth, template] of templates.entries())
        expect(given[nth]).toMatch(fill(String(template), name))
      const must = contract.args.filter((word) => !word.endsWith('?')).length
      const perItem = contract.argsEach?.length ?? 0
      if (perItem === 0) {
        expect(args.length).toBeGreaterThanOrEqual(must)
        expect(args.length).toBeLessThanOrEqual(contract.args.length)
      } else if (jobs.length > 0) expect(args).toHaveLength(must + perItem * jobs.length)
      else expect((args.length - must) % perItem).toBe(0)
      if (contract.args[0] === 'jobPrefix') expect(args[0]).toBe(`emq:{${name}}:job:`)
    }
    expect([...called].sort()).toEqual(names.toSorted())
    expect(await census(redis.port, name)).toEqual([])
  })
})

describe('what a run costs', () => {
  const shared = sharedRedis()
  let port: RedisPort
  beforeAll(() => {
    port = createUpstashPort({ url: shared.bridge.url, token: REST_TOKEN, timeoutMs: 10_000 })
  })

  type Hand = ReturnType<typeof handOn>
  const ID = 'JOB00000000001'
  const LATER = 100_000
  /** A run from a state: `base` is the one that the header's first number tells. */
  const RUNS: readonly (readonly [string, StateName, (hand: Hand) => Promise<unknown>, number | 'base'])[] = [
    ['claim', 'pending, never claimed', (hand) => hand.claim(), 6],
    ['claim', 'no row', (hand) => hand.claim(), 1],
    ['enqueue', 'no row', (hand) => hand.enqueue(ID), 'base'],
    ['enqueue', 'pending, never claimed', (hand) => hand.enqueue(ID), 1],
    ['complete', 'active by its first claim', (hand) => hand.complete(ID, 1), 'base'],
    ['complete', 'pending after a first lapse', (hand) => hand.complete(ID, 2), 4],
    ['complete', 'no row', (hand) => hand.complete(ID, 1), 2],
    ['complete', 'active by its first claim', (hand) => hand.complete(ID, 9), 1],
    ['retry', 'active by its first claim', (hand) => hand.retry(ID, 1, LATER, 0), 'base'],
    ['retry', 'active by its first claim', (hand) => hand.retry(ID, 1, '', '', 'e', '0.5'), 6],
    ['retry', 'active by its first claim', (hand) => hand.retry(ID, 1, '', 1, 'e', '0.5'), 7],
    ['retry', 'active by its first claim', (hand) => hand.retry(ID, 9, LATER, 0), 1],
    ['promote', 'no row', (hand) => hand.promote(), 'base'],
    ['promote', 'scheduled by a delay and due', (hand) => hand.promote(), 7],
    ['reap', 'no row', (hand) => hand.reap(), 'base'],
    ['reap', 'active with a lapsed lease', (hand) => hand.reap(), 8],
    ['enqueue_many', 'no row', (hand) => hand.enqueueMany([{ id: ID, explicit: false }]), 'base'],
    ['claim_many', 'no row', (hand) => hand.claimMany(), 'base'],
    ['claim_many', 'pending, never claimed', (hand) => hand.claimMany(1), 9],
    ['claim_many', 'active by its first claim', (hand) => hand.claimMany(1, LATER, 'c'), 5],
    ['settle', 'no row', (hand) => hand.settle([{ action: 'retry', id: ID, token: 1 }]), 1],
    [
      'settle',
      'active by its first claim',
      (hand) => hand.settle([{ action: 'complete', id: ID, token: 1 }]),
      5,
    ],
    [
      'settle',
      'active by its first claim',
      (hand) => hand.settle([{ action: 'release', id: ID, token: 1, ms: 0 }]),
      6,
    ],
    [
      'settle',
      'active by its first claim',
      (hand) => hand.settle([{ action: 'extend', id: ID, token: 1, ms: LATER }]),
      4,
    ],
    ['sweep', 'no row', (hand) => hand.sweep(), 'base'],
    ['redrive', 'dead by a fail', (hand) => hand.redrive(ID), 'base'],
    ['redrive_many', 'no row', (hand) => hand.redriveMany(), 'base'],
    ['redrive_many', 'dead by a fail', (hand) => hand.redriveMany(), 9],
    ['reschedule', 'scheduled by a delay', (hand) => hand.reschedule(ID, { delayMs: LATER }), 'base'],
    ['reschedule', 'scheduled by a delay', (hand) => hand.reschedule(ID, { delayMs: 0 }), 6],
    ['remove', 'active with a lapsed lease', (hand) => hand.remove(ID), 'base'],
    ['remove', 'dead by a fail', (hand) => hand.remove(ID), 8],
    ['purge', 'no row', (hand) => hand.purge('dead'), 'base'],
    ['purge', 'dead by a fail', (hand) => hand.purge('dead'), 6],
    ['list', 'no row', (hand) => hand.list('dead'), 'base'],
    ['list', 'dead by a fail', (hand) => hand.list('dead'), 3],
  ]

  /** The first number of commands that a cost line tells, and their names. */
  function told(name: string): { number: number; commands: Set<string> } {
    const match = /(\d+) commands?[^(;]*\(([^)]*)\)/.exec(readHeader(source(name)).get('COST')?.join() ?? '')
    const words = (match?.[2] ?? '').match(/[A-Z]{3,}/g) ?? []
    return { number: Number(match?.[1]), commands: new Set(words.map((word) => word.toLowerCase())) }
  }

  const titled = RUNS.map((run) => {
    const [name, state, , expected] = run
    return [
      `${name} of "${state}" runs ${expected === 'base' ? 'what its header says' : expected}`,
      ...run,
    ] as const
  })
  test.each(titled)('%s', async (_, name, state, run, expected) => {
    // Whatever a state's building or a script's loading takes is not counted.
    await build(state, handOn(port, freshQueue()), ID)
    await run(handOn(port, freshQueue()))
    const hand = handOn(port, freshQueue())
    await build(state, hand, ID)
    await shared.bridge.reset()
    await run(hand)
    const { requests, commands } = await shared.bridge.counts()
    const { evalsha = 0, ...inner } = commands
    const total = Object.values(inner).reduce((sum, count) => sum + count, 0)
    expect([requests, evalsha]).toEqual([1, 1])
    if (expected !== 'base') return expect(total).toBe(expected)
    const { number, commands: listed } = told(name)
    expect(total).toBe(number)
    expect(new Set(Object.keys(inner))).toEqual(listed)
  })

  test('a planned visit is 2 commands a queue, as the header of postpone says', async () => {
    const hand = handOn(port, freshQueue())
    const [one, two] = [freshQueue(), freshQueue()]
    await hand.send('ZADD', '{emq}:queues', 5, one, 6, two)
    const args = [one, 5, 1_000_000, two, 6, 1_000_000]
    const planning: Command = ['EVAL', SCRIPTS.postpone.source, 1, '{emq}:queues', ...args]
    await shared.bridge.reset()
    expect(await port.send([planning])).toEqual([2])
    expect(told('postpone').number).toBe(2)
    expect((await shared.bridge.counts()).commands).toEqual({ eval: 1, zscore: 2, zadd: 2 })
  })
})

describe('somebody who has the manifest and plain RESP', () => {
  const redis = bareRedis()
  let resp: Resp
  beforeAll(async () => {
    resp = await connectResp(redis.url)
    for (const { file } of manifest.core) {
      const text = readFileSync(new URL(file, lua), 'utf8')
      await resp.run([{ name: 'SCRIPT', args: ['LOAD', text] }])
    }
    return () => resp.close()
  })

  const plain = (reply: RespReply): unknown => {
    if (reply instanceof RespInteger) return Number(reply.digits)
    if (reply instanceof RespError) return reply.text
    if (Buffer.isBuffer(reply)) return reply.toString()
    return reply === null ? null : reply.map(plain)
  }

  /** A call made of nothing but an entry of the manifest and values by the words of its vocabulary. */
  async function call(
    name: string,
    queue: string,
    values: Record<string, string | number>,
    optionalKeys = false,
  ): Promise<unknown> {
    const { sha1, keys, optionalKeys: further = [], args } = entry(name)
    const filled = [...keys, ...(optionalKeys ? further : [])].map((key) =>
      key.replace('{q}', `{${queue}}`).replace('<id>', String(values['id'])),
    )
    const words = args.map((word) => word.replace('?', '')).filter((word) => word in values)
    const sent = words.map((word) => String(values[word]))
    const [reply = null] = await resp.run([
      { name: 'EVALSHA', args: [sha1, String(filled.length), ...filled, ...sent] },
    ])
    return plain(reply)
  }

  test.each([false, true])(
    'runs a job through all six core scripts, optional keys given: %s',
    async (given) => {
      const queue = freshQueue()
      const jobPrefix = `emq:{${queue}}:job:`
      const id = 'JOB0KHTOWnGLuC'
      const work = (name: string, values: Record<string, string | number>) => call(name, queue, values, given)

      expect(await work('enqueue', { id: 'USR0KHTOWnGLuC', payload: 'p' })).toBe(
        'EMQKIND job id must be JOB-namespaced',
      )
      expect(await work('enqueue', { id, payload: 'p' })).toBe(1)
      expect(await work('enqueue', { id, payload: 'other' })).toBe(0)
      expect(await work('claim', { jobPrefix, leaseMs: 60_000 })).toEqual([id, 'p', 1])
      expect(await work('claim', { jobPrefix, leaseMs: 60_000 })).toEqual([])
      const report = { id, token: 1, delayMs: 0, maxAttempts: 3, error: 'boom' }
      expect(await work('retry', { ...report, token: 2 })).toBe('EMQSTALE retry token mismatch')
      expect(await work('retry', report)).toBe('scheduled')
      expect(await work('retry', report)).toBe('EMQSTALE retry token mismatch (released)')
      expect(await work('promote', { jobPrefix, limit: 10 })).toBe(1)
      expect(await work('claim', { jobPrefix, leaseMs: 0 })).toEqual([id, 'p', 2])
      expect(await work('reap', { jobPrefix, limit: 10 })).toBe(1)
      expect(await work('retry', { ...report, token: 2 })).toBe('EMQSTALE retry token mismatch (lapsed)')
      expect(await work('claim', { jobPrefix, leaseMs: 60_000 })).toEqual([id, 'p', 3])
      expect(await work('complete', { id, token: 2 })).toBe('EMQSTALE complete token mismatch')
      expect(await work('retry', { ...report, token: 3 })).toBe('dead')
      expect(await work('complete', { id, token: 3 })).toBe('EMQSTALE complete token mismatch (released)')
      expect(await work('enqueue', { id: 'JOB0NgWEfAEJfs', payload: 'q' })).toBe(1)
      expect(await work('claim', { jobPrefix, leaseMs: 60_000 })).toEqual(['JOB0NgWEfAEJfs', 'q', 1])
      expect(await work('complete', { id: 'JOB0NgWEfAEJfs', token: 1 })).toBe(1)
      expect(await work('complete', { id: 'JOB0NgWEfAEJfs', token: 1 })).toBe(0)
      expect(await work('retry', { ...report, id: 'JOB0NgWEfAEJfs' })).toBe('EMQSTALE job gone')
      expect(await census(redis.port, queue)).toEqual([])
    },
  )

  test('has a promoted ghost counted with the optional key, and dropped without it all the same', async () => {
    for (const given of [false, true]) {
      const queue = freshQueue()
      const ghost = { name: 'ZADD', args: [`emq:{${queue}}:schedule`, '1', 'JOB0KHTOWnGLuC'] }
      await resp.run([ghost])
      expect(await call('promote', queue, { jobPrefix: `emq:{${queue}}:job:`, limit: 10 }, given)).toBe(0)
      const left = await keysOf(redis.port, queue)
      expect(left).toEqual(given ? [`emq:{${queue}}:metrics:ghosts`] : [])
    }
  })

  test('keeps payloads as the bytes they are, also those that are not UTF-8', async () => {
    const { sha1 } = entry('enqueue')
    const { sha1: claim } = entry('claim')
    const queue = freshQueue()
    const bytes = Buffer.from([0, 0xff, 0xfe, 0x0d, 0x0a, 0x80])
    const keys = [`emq:{${queue}}:job:JOB00000000001`, `emq:{${queue}}:pending`]
    const [stored, claimed] = await resp.run([
      { name: 'EVALSHA', args: [sha1, '2', ...keys, 'JOB00000000001', bytes] },
      {
        name: 'EVALSHA',
        args: [claim, '2', keys[1] ?? '', `emq:{${queue}}:active`, `emq:{${queue}}:job:`, '60000'],
      },
    ])
    expect(plain(stored ?? null)).toBe(1)
    expect((claimed as readonly RespReply[])[1]).toEqual(bytes)
  })
})
