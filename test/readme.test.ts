/**
 * README and docs stay true: the tests run the commands of the README, find its code in tested examples, follow every
 * relative link, check the map of the repository, and compare the costs in docs/performance.md with what Redis counts.
 */
import { execFile } from 'node:child_process'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { EchoMQ } from '../src/client/index.ts'
import { maintain } from '../src/maintenance/maintenance.ts'
import { GLOBAL_KEYS } from '../src/protocol/keys.ts'
import { createDatabase } from '../src/queue/database.ts'
import { createUpstashPort } from '../src/queue/upstash.ts'
import { startStack, type TestStack } from '../src/stack/stack.ts'
import { freshQueue } from './support/api.ts'
import { filesBelow, PROJECT, programOf, wrongIn } from './support/typescript.ts'

const read = (file: string): string => readFileSync(join(PROJECT, file), 'utf8')

const readme = read('README.md')
const { scripts } = JSON.parse(read('package.json'))

type Block = { readonly language: string; readonly code: string; readonly section: string }

/** The fenced blocks of a document without indentation, each with the section that contains it. */
function blocksOf(markdown: string): Block[] {
  return markdown.split(/^(?=#+ )/m).flatMap((section) =>
    [...section.matchAll(/^( *)```(\w*)\n(.*?)^ *```$/gms)].map(
      ([, indent = '', language = '', code = '']): Block => ({
        language,
        code: code.replaceAll(new RegExp(`^${indent}`, 'gm'), ''),
        section,
      }),
    ),
  )
}

const blocks = blocksOf(readme)
const of = (language: string): Block[] => blocks.filter((block) => block.language === language)

async function shell(command: string): Promise<string> {
  const { stdout } = await promisify(execFile)('/bin/sh', ['-ec', command], { cwd: PROJECT })
  return stdout
}

let stack: TestStack
beforeAll(async () => {
  stack = await startStack({ port: 0, restPort: 0, testMode: true, quiet: true, cron: false })
})
afterAll(() => stack?.stop())

describe('commands', () => {
  test('the two commands of the README are scripts of the package', () => {
    const commands = blocks.map(({ code }) =>
      [...code.matchAll(/^npm ci && npm(?: run)? (\w+)/gm)].map(([all]) => all),
    )

    expect(commands.flat()).toEqual(['npm ci && npm run dev', 'npm ci && npm test'])
    expect(Object.keys(scripts)).toEqual(expect.arrayContaining(['dev', 'test']))
  })

  test('every script that a document names exists', () => {
    const named = documents.flatMap((file) =>
      [...read(file).matchAll(/\bnpm run ([\w:-]+)/g)].map(([, name]) => name),
    )

    expect(named.length).toBeGreaterThan(10)
    expect(named.filter((name) => !(String(name) in scripts))).toEqual([])
  })

  test('the curl commands of the README enqueue, claim and complete a job', async () => {
    const answers = []
    for (const { code } of of('sh').filter(({ code }) => code.includes('curl '))) {
      const lines = code.replaceAll('http://127.0.0.1:8787', stack.url)
      for (const line of lines.split('\n\n'))
        answers.push(JSON.parse(await shell(`${line.trim()} --silent --fail`)))
    }

    const job = { id: 'JOB0KHTOWnGLuC', payload: { to: 'ada@example.com' }, token: 1 }
    const last = { id: 'JOB0KHTOWnGLuC', status: 'completed' }
    expect(answers).toMatchObject([{ id: job.id, status: 'enqueued' }, { jobs: [job] }, last])
    expect(readme).toContain(`\`${JSON.stringify(last)}\``)
  })

  test('the commands of the CLI work with the package and with the script of a clone', async () => {
    const [{ code = '' } = {}] = blocks.filter(({ code }) => code.includes('npx echomq-edge enqueue'))
    // The commands that end by themselves.
    const commands = code.split('\n').filter((line) => /^(export |npx echomq-edge (?!watch|dev))/.test(line))
    const lines = commands.join('\n').replaceAll('http://127.0.0.1:8787', stack.url)
    const run = (program: string) => shell(lines.replaceAll('npx echomq-edge', program))
    const printed = /^JOB\w{11} enqueued\n0 redriven\n$/

    expect(commands).toHaveLength(4)
    expect(await run('node src/cli/main.ts')).toMatch(printed)
    const [, script = ''] = /`(npm run cli [^`]*)`/.exec(readme) ?? []
    expect(await run(script)).toMatch(printed)
  })

  test('the commands for tokens print the tokens of a deployment', async () => {
    const commands = blocks.flatMap(({ code }) => code.match(/^npm run token .*$/gm) ?? [])
    const made = await Promise.all(commands.map(shell))

    expect(made.map((text) => /"name":"(\w+)"/.exec(text)?.[1])).toEqual(['web', 'worker', 'ops'])
    for (const text of made) expect(text).toMatch(/\bemq_[\w-]{43}\b/)
  })
})

/** The code without indentation, split at the `// ...` lines. */
const piecesOf = (code: string): string[] =>
  code.split(/^\s*\/\/ \.\.\.$/m).map((piece) => piece.replaceAll(/^\s+/gm, '').trim())

/** The files of the examples that a section links. */
function examplesIn(section: string): string[] {
  const folders = [...section.matchAll(/\]\((examples\/[\w-]+)\)/g)].map(([, folder = '']) => folder)
  return folders.flatMap((folder) =>
    readdirSync(join(PROJECT, folder), { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name)),
  )
}

describe('code', () => {
  const excerpts = blocks.filter(({ language }) => ['ts', 'go', 'toml'].includes(language))

  test('every section on a place to run has code', () => {
    const places = readme.split('\n## ').find((section) => section.startsWith('Where it runs')) ?? ''
    const sections = places.split('\n### ').slice(1)
    const withCode = sections.filter((section) => blocksOf(section).length > 0)
    expect(withCode.map((section) => section.split('\n')[0])).toEqual(
      expect.arrayContaining(['Cloudflare Workers', 'Vercel and Next.js', 'AWS Lambda', 'Node.js', 'Go']),
    )
  })

  test.each(excerpts)(
    'the code is part of the example that its section links: $code',
    ({ code, section }) => {
      const wanted = piecesOf(code)
      const files = examplesIn(section).map((file) => readFileSync(file, 'utf8').replaceAll(/^\s+/gm, ''))

      const holds = (file: string): boolean => {
        let from = 0
        return wanted.every((piece) => {
          const at = file.indexOf(piece, from)
          from = at + piece.length
          return at >= 0
        })
      }
      expect(files.filter(holds)).toHaveLength(1)
    },
  )

  test('the examples have no type errors', () => {
    const examples = filesBelow('examples/')

    expect(examples.length).toBeGreaterThan(4)
    expect(wrongIn(programOf(examples), examples)).toBe('')
  })
})

const documents = [
  'README.md',
  'CHANGELOG.md',
  'CONTRIBUTING.md',
  'SECURITY.md',
  ...readdirSync(join(PROJECT, 'docs')).map((file) => `docs/${file}`),
].filter((file) => file.endsWith('.md'))

/** The names of a document's headings in links. */
const anchorsOf = (markdown: string): string[] =>
  [...markdown.matchAll(/^#+ (.*)$/gm)].map(([, heading = '']) =>
    heading
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N} _-]/gu, '')
      .replaceAll(' ', '-'),
  )

test.each(documents)('every relative link of %s has a target', (file) => {
  const prose = read(file).replaceAll(/^ *```.*?^ *```$/gms, '')
  const links = [...prose.matchAll(/\]\((?!https?:|mailto:)([^)\s]+)\)/g)].map(([, link = '']) => link)

  const broken = links.filter((link) => {
    const [path = '', anchor] = link.split('#')
    const target = path === '' ? file : join(dirname(file), path)
    if (!existsSync(join(PROJECT, target))) return true
    return anchor !== undefined && !anchorsOf(read(target)).includes(anchor)
  })
  expect(broken).toEqual([])
})

test('the map in CONTRIBUTING.md has every file at the root, and every file and room of src', async () => {
  const map =
    read('CONTRIBUTING.md')
      .split('\n## ')
      .find((text) => text.startsWith('The map')) ?? ''
  const rootFiles = (await shell("git ls-files -- ':(glob)*'")).trim().split('\n')
  const rooms = readdirSync(join(PROJECT, 'src'), { withFileTypes: true }).map((entry) =>
    entry.isDirectory() ? `${entry.name}/` : entry.name,
  )

  expect(rootFiles).toContain('package.json')
  expect(rooms).toContain('queue/')
  expect([...rootFiles, ...rooms].filter((name) => !map.includes(`\`${name}\``))).toEqual([])
})

describe('costs', () => {
  /** The cost of some work: requests to the database and commands. */
  async function costOf(run: () => Promise<unknown>): Promise<{ requests: number; total: number }> {
    await stack.bridge.reset()
    await run()
    const { requests, total } = await stack.bridge.counts()
    return { requests, total }
  }

  /** The cost of one request, without the sweep that the isolate may add. */
  async function untilAlone(run: () => Promise<unknown>): Promise<{ requests: number; total: number }> {
    for (let tries = 1; ; tries++) {
      const cost = await costOf(run)
      if (cost.requests === 1 || tries === 5) return cost
    }
  }

  const queue = (name = freshQueue()) =>
    new EchoMQ({ url: stack.url, token: stack.tokens.operator, retry: 0 }).queue(name)

  type Claimed = { readonly id: string; readonly token: number }

  async function post<Answer>(name: string, verb: string, body: unknown): Promise<Answer> {
    const response = await fetch(`${stack.url}/v1/queues/${name}/${verb}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${stack.tokens.operator}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    })
    expect(response.status).toBe(200)
    return response.json() as Answer
  }

  const claim = async (name: string, limit?: number): Promise<Claimed[]> =>
    (await post<{ jobs: Claimed[] }>(name, 'claim', { limit })).jobs

  /** The client never claims without a limit. */
  async function claimOne(name: string): Promise<Claimed> {
    const [job] = await claim(name)
    if (!job) throw new Error('There was no job.')
    return job
  }

  const payloads = (count: number) => Array.from({ length: count }, (_, nth) => ({ payload: nth }))

  const completeAll = async (name: string): Promise<void> => {
    const items = (await claim(name, 100)).map(({ id, token }) => ({ action: 'complete', id, token }))
    await post(name, 'settle', { items })
  }

  const page = read('docs/performance.md')
  const section = page.split('\n## ').find((text) => text.startsWith('What a job costs')) ?? ''
  const notes = section.replaceAll(/\s+/g, ' ')

  test('the table of job costs in docs/performance.md is what Redis counts', async () => {
    // The first two rows are the header and the line below it.
    const [, , ...table] = [...section.matchAll(/^\|([^|]+)\|([^|]+)\|([^|]+)\|$/gm)].map(([, ...cells]) =>
      cells.map((cell) => cell.trim()),
    )
    const emails = queue()
    await emails.enqueueMany(payloads(6))
    let held = await claimOne(emails.name)

    const completed = await costOf(() => emails.complete(held))
    const enqueued = await costOf(() => emails.enqueue('x'))
    const claimed = await untilAlone(async () => {
      held = await claimOne(emails.name)
    })
    await emails.complete(held)
    await completeAll(emails.name)
    const empty = await costOf(() => claim(emails.name, 100))
    const life = await costOf(async () => {
      await emails.enqueueMany(payloads(100))
      await completeAll(emails.name)
    })

    const port = createUpstashPort({ url: stack.restUrl, token: stack.restToken, timeoutMs: 10_000 })
    await port.send([['DEL', GLOBAL_KEYS.queues]])
    const resting: string[] = []
    for (let nth = 1; nth <= 100; nth++) {
      const idle = queue()
      await idle.enqueue('x')
      await completeAll(idle.name)
      resting.push(idle.name)
    }
    // The code of the cron, with a clock that advances by a minute.
    let minutes = 0
    const now = () => Date.now() + minutes * 60_000
    const database = createDatabase(port, { wireAccept: [], wireClaim: undefined }, now)
    const cron = () => maintain(database)
    // In the first the queues have just been used, in the second they are seen to rest, until a quarter of an hour
    // that may be near: as if it had just begun.
    for (; minutes < 2; minutes++) await cron()
    const until = Date.now() + 15 * 60_000
    await port.send([['ZADD', GLOBAL_KEYS.queues, ...resting.flatMap((name) => [until, name])]])
    const idleMinutes: { requests: number; total: number }[] = []
    for (; minutes < 8; minutes++) idleMinutes.push(await costOf(cron))
    const most = (of: 'requests' | 'total') => Math.max(...idleMinutes.map((minute) => minute[of]))

    expect(table).toEqual([
      ['enqueue one job', `${enqueued.requests}`, `${enqueued.total}`],
      ['claim one job', `${claimed.requests}`, `${claimed.total}`],
      ['complete it', `${completed.requests}`, `${completed.total}`],
      ['whole life of a job, in batches of 100', `${life.requests / 100}`, (life.total / 100).toFixed(1)],
      ['empty claim with `limit`', `${empty.requests}`, `${empty.total}`],
      ['minute of cron with 100 queues at rest', `${most('requests')}`, `${most('total')}`],
    ])
  })

  test('the notes on the enqueues and claims of the client are what Redis counts', async () => {
    const emails = queue()
    const plain = await costOf(() => emails.enqueue('x'))
    await emails.enqueueMany(payloads(10))
    const claims = async (limit: number, claimId?: string) => {
      const cost = await costOf(() => post(emails.name, 'claim', { limit, claimId }))
      return cost.total
    }
    const named = await claims(1, 'alone')
    const beside = await claims(1, 'beside')
    const [one, two, three] = [await claims(1), await claims(2), await claims(3)]
    const enqueued = await costOf(() => emails.enqueue('x'))
    const delayed = await costOf(() => emails.enqueue('x', { delayMs: 60_000 }))

    const each = two - one
    expect(three - two).toBe(each)
    expect(enqueued.total).toBe(plain.total)
    expect(notes).toContain(`costs ${enqueued.total} commands, with a delay ${delayed.total}.`)
    expect(notes).toContain(`A claim with \`limit\` costs ${one - each} commands and ${each} for each job.`)
    expect(notes).toContain(
      `adds ${named - one} command, or ${beside - one} while the queue has active jobs.`,
    )
  })

  test('the note on the sweep before a claim is what Redis counts', async () => {
    const name = freshQueue()
    const claimed = await costOf(() => claim(name))

    // EVALSHA and ZPOPMIN are the claim itself, which finds nothing.
    expect(claimed.requests).toBe(2)
    expect(notes).toContain(`${claimed.total - 2} commands when the queue has nothing to sweep`)
  })
})
