/**
 * The package as users get it: packed, linted, installed in an empty project, compiled and run, on the Node of the
 * system (20 is the oldest supported one) and on the Node of the project.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { gzipSync } from 'node:zlib'
import { serve } from '@hono/node-server'
import { minify } from 'vite'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { createApp } from '../../src/app.ts'
import { VIEWER_FILES } from '../../src/reference/reference.ts'
import { buildWorker } from '../../src/stack/wrangler.ts'
import { secretsOf, startWorkers, workerOf } from '../service/support/workers.ts'
import { EMQ_TOKENS, freshQueue, TOKENS } from '../support/api.ts'
import { sharedRedis } from '../support/redis.ts'
import { type Installed, install, outcomeOf, ROOT, SYSTEM_NODE } from './support/installed.ts'

const PACKING_TIMEOUT_MS = 120_000
const COMPILING_TIMEOUT_MS = 120_000
const STARTING_TIMEOUT_MS = 60_000
const CLEAN = { code: 0, stdout: '', stderr: '' }
const MAX_CLIENT_BYTES = 6 * 1000

const shared = sharedRedis()
let installed: Installed
beforeAll(async () => {
  installed = await install()
}, PACKING_TIMEOUT_MS)
afterAll(() => installed?.remove())

/** Compiles the files of the project with the types of the package. */
async function compile(module: string, moduleResolution: string, ...args: string[]) {
  const { folder } = installed
  const options = {
    ...{
      module,
      moduleResolution,
      target: 'es2022',
      lib: ['es2022', 'dom', 'dom.iterable'],
      types: ['node'],
    },
    ...{
      strict: true,
      exactOptionalPropertyTypes: true,
      noUncheckedIndexedAccess: true,
      skipLibCheck: false,
    },
    typeRoots: [join(ROOT, 'node_modules/@types')],
  }
  await writeFile(
    join(folder, 'tsconfig.json'),
    JSON.stringify({
      compilerOptions: options,
      include: ['*.ts', join(ROOT, 'src/service/cloudflare.d.ts'), join(ROOT, 'src/wake/cloudflare.d.ts')],
    }),
  )
  return outcomeOf(join(ROOT, 'node_modules/.bin/tsc'), args, { cwd: folder })
}

/** Serves the API over HTTP for one test and returns its URL. */
function servedApi(): Promise<string> {
  const { url, token } = shared.bridge
  const app = createApp({
    env: { UPSTASH_REDIS_REST_URL: url, UPSTASH_REDIS_REST_TOKEN: token, EMQ_TOKENS },
  })
  return new Promise((resolve) => {
    const options = { fetch: app.fetch, hostname: '127.0.0.1', port: 0, overrideGlobalObjects: false }
    const server = serve(options, ({ port }) => resolve(`http://127.0.0.1:${port}`))
    onTestFinished(() => void server.close())
  })
}

const BIN = 'node_modules/.bin/echomq-edge'

const nodes = [
  ['the Node of the system', SYSTEM_NODE],
  ['the Node of the project', process.execPath],
] as const

/** Runs a compiled file of the project and parses its output as JSON. */
async function run(node: string, file: string, env: Record<string, string> = {}) {
  const outcome = await outcomeOf(node, [`out/${file}.js`], { cwd: installed.folder, env })
  expect(outcome.stderr).toBe('')
  return JSON.parse(outcome.stdout)
}

describe('the tarball', () => {
  test('the tarball has the expected files and no others', () => {
    const scripts = installed.files.filter((file) => /^lua\/\w+\.lua$/.test(file))
    const chunks = installed.files.filter((file) =>
      /^dist\/(cli\/)?[\w.-]+-[\w-]{8}(\.d)?\.[tj]s$/.test(file),
    )
    const known = [...scripts, ...chunks]
    const others = installed.files.filter(
      (file) => !known.includes(file) && !/^(docs\/[\w-]+\.md|examples\/.+)$/.test(file),
    )
    expect(scripts.length).toBeGreaterThan(15)
    const wanted = [
      ...['CHANGELOG.md', 'CONTRIBUTING.md', 'LICENSE', 'README.md', 'SECURITY.md'],
      ...['bundle', 'client', 'index', 'worker'].flatMap((entry) => [
        `dist/${entry}.d.ts`,
        `dist/${entry}.js`,
      ]),
      ...['dist/cli/main.js', 'dist/cli/worker-host.js', 'dist/cli/worker.json'],
      ...['reference.json', ...VIEWER_FILES.keys()].map((name) => `dist/assets/docs/${name}`),
      ...['dist/assets/_headers', 'dist/assets/third-party-licences.txt'],
      ...['lua/manifest.json', 'package.json'],
    ]
    expect(others.sort()).toEqual(wanted.sort())
  })

  test('168: every file that the README links to is in the tarball', async () => {
    const readme = await readFile(join(ROOT, 'README.md'), 'utf8')
    const links = [...readme.matchAll(/\]\((?!https?:|#)([^)#]+)/g)].map(([, path = '']) => path)
    expect(links.length).toBeGreaterThan(10)
    const isPacked = (path: string) => installed.files.some((file) => `${file}/`.startsWith(`${path}/`))
    expect(links.filter((path) => !isPacked(path))).toEqual([])
  })

  test('167: the package has no peer dependencies', async () => {
    const manifest = JSON.parse(
      await readFile(join(installed.folder, 'node_modules/echomq-edge/package.json'), 'utf8'),
    )
    expect(Object.keys(manifest)).not.toContain('peerDependencies')
  })

  test('the tarball has no path of the machine that built it', async () => {
    for (const file of installed.files.filter((name) => name.startsWith('dist/'))) {
      const text = await readFile(join(installed.folder, 'node_modules/echomq-edge', file), 'utf8')
      expect(text).not.toContain(ROOT)
    }
  })
})

describe('the types', () => {
  test(
    'the types compile under moduleResolution bundler, with all declarations checked',
    async () =>
      expect(await compile('esnext', 'bundler', '--noEmit', '--skipLibCheck', 'false')).toEqual(CLEAN),
    COMPILING_TIMEOUT_MS,
  )

  test(
    'the types compile under moduleResolution node16',
    // The tests below run the output.
    async () => expect(await compile('node16', 'node16', '--outDir', 'out')).toEqual(CLEAN),
    COMPILING_TIMEOUT_MS,
  )
})

describe.each(nodes)('on %s', (_name, node) => {
  test('the app can be mounted, serves its reference, and runs its maintenance', async () => {
    const { url, token } = shared.bridge
    const env = {
      UPSTASH_REDIS_REST_URL: url,
      UPSTASH_REDIS_REST_TOKEN: token,
      EMQ_TOKENS,
      EMQ_QUEUES: freshQueue(),
    }
    expect(await run(node, 'app', env)).toEqual({
      mine: 'mine',
      redis: 'ok',
      queues: expect.any(Number),
      docs: [200, 200, 200, 200],
    })
  })

  test('131: require() loads each entry', async () => {
    const program = `console.log(typeof require('echomq-edge/client').EchoMQ, typeof require('echomq-edge').createApp, typeof require('echomq-edge/bundle').MANIFEST)`
    const { code, stdout } = await outcomeOf(node, ['--input-type=commonjs', '-e', program], {
      cwd: installed.folder,
    })
    expect([code, stdout]).toEqual([0, 'function function object\n'])
  })

  test('the client produces and consumes', async () => {
    const env = { EMQ_URL: await servedApi(), EMQ_TOKEN: TOKENS.operator, QUEUE: freshQueue() }
    expect(await run(node, 'client', env)).toEqual({
      status: 'enqueued',
      to: 'ada@example.com',
      completed: 'completed',
      stale: 'stale',
      drained: [1, 1],
      wrong: 'function',
    })
  })

  test('the bundle and the files in lua/ are the same scripts', async () => {
    expect(await run(node, 'bundle')).toEqual({
      claim: '2319de1e94e21dd355032c7a25b90636b53f36cd',
      scripts: true,
      manifest: true,
      wrong: [],
    })
  })

  test('the command line works', async () => {
    const { folder } = installed
    const env = { EMQ_URL: await servedApi(), EMQ_TOKEN: TOKENS.operator }
    const queue = freshQueue()
    const cli = (...args: string[]) => outcomeOf(node, [BIN, ...args], { cwd: folder, env })
    expect(await cli('enqueue', queue, '{"n":9007199254740993}')).toMatchObject({ code: 0, stderr: '' })
    expect((await cli('claim', queue, '--json')).stdout).toContain('"payload":{"n":9007199254740993}}')
    expect((await cli('claim', queue)).code).toBe(3)
  })

  test('the Worker fails with an error that names its runtime', async () => {
    const { code, stderr } = await outcomeOf(node, ['out/worker.js'], { cwd: installed.folder })
    expect(code).toBe(1)
    expect(stderr).toContain('cloudflare:')
  })
})

describe('a Worker of the package', { timeout: STARTING_TIMEOUT_MS }, () => {
  const ASSETS = 'node_modules/echomq-edge/dist/assets'

  /** Builds and starts a Worker whose wrangler.toml ends with these lines. */
  async function startOwnWorker(name: string, lines: string) {
    const config = join(installed.folder, `${name}.toml`)
    await writeFile(config, `name = "mine"\nmain = "worker.ts"\ncompatibility_date = "2026-11-01"\n${lines}`)
    const built = await buildWorker(config)
    const worker = workerOf('mine', built, {
      ...secretsOf(shared.bridge),
      ...(built.assets && { [built.assets.binding]: { type: 'assets' } }),
    })
    if (built.assets)
      worker.config.assets = { directory: join(installed.folder, ASSETS), hasUserWorker: true }
    const workers = await startWorkers([worker])
    onTestFinished(workers.stop)
    return (path: string) => workers.fetch('mine', path)
  }

  test('serves the API and the OpenAPI document, and says how to get the viewer', async () => {
    const get = await startOwnWorker('without-assets', '')
    expect(await (await get('/healthz')).json()).toEqual({ status: 'ok' })
    expect(await (await get('/openapi.json')).json()).toMatchObject({ info: { title: 'EchoMQ Edge' } })
    const docs = await get('/docs')
    expect(docs.status).toBe(404)
    expect(await docs.json()).toMatchObject({
      detail: expect.stringContaining(`[assets] directory = "${ASSETS}" binding = "ASSETS"`),
    })
  })

  test('serves the viewer with the lines of wrangler.toml that its problem names', async () => {
    const get = await startOwnWorker('with-assets', `[assets]\ndirectory = "${ASSETS}"\nbinding = "ASSETS"\n`)
    for (const path of ['/docs', '/docs/viewer.js', '/docs/swagger-ui.css', '/openapi.json']) {
      const response = await get(path)
      // An unread body would keep workerd from stopping.
      expect([path, response.status, (await response.text()) !== '']).toEqual([path, 200, true])
    }
  })
})

test('the client has no imports and stays within its byte budget', async () => {
  const source = await readFile(join(installed.folder, 'node_modules/echomq-edge/dist/client.js'), 'utf8')
  expect(source).not.toMatch(/^import|\bimport\(|\brequire\(/m)

  const { code } = await minify('client.js', source, { module: true })
  expect(gzipSync(code, { level: 9 }).length).toBeLessThanOrEqual(MAX_CLIENT_BYTES)
})

describe('the local stack of the package', () => {
  const dev = (node: string) =>
    outcomeOf(node, [BIN, 'dev', '--json', '--quiet', '--port', '0', '--rest-port', '0'], {
      cwd: installed.folder,
    })

  test('167, 170: dev says which miniflare it needs and which one there is, and dev --help works without them', async () => {
    const { code, stderr } = await dev(process.execPath)
    expect(code).toBe(1)
    expect(stderr).toContain('In the project where echomq-edge is installed')
    const { devDependencies } = JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8'))
    expect(stderr).toContain(`npm install --save-dev miniflare@${devDependencies.miniflare}`)

    const other = join(installed.folder, 'node_modules/miniflare')
    await mkdir(other)
    await writeFile(join(other, 'package.json'), '{"name":"miniflare","version":"4.1.0"}')
    await writeFile(join(other, 'index.js'), '')
    expect((await dev(process.execPath)).stderr).toContain('This project has 4.1.0.')
    await rm(other, { recursive: true })

    expect((await outcomeOf(process.execPath, [BIN, 'dev', '--help'], { cwd: installed.folder })).code).toBe(
      0,
    )
  })

  test('170: dev rejects a Node that is older than 22 before it names missing packages', async () => {
    const { stdout: version } = await outcomeOf(SYSTEM_NODE, ['--version'], { cwd: installed.folder })
    const isOld = Number.parseInt(version.slice(1), 10) < 22
    const { code, stderr } = await dev(SYSTEM_NODE)
    expect(code).toBe(1)
    expect(stderr).toContain(isOld ? 'needs Node 22 or newer; this is 2' : 'npm install --save-dev')
    expect(stderr.includes('npm install')).toBe(!isOld)
  })

  test(
    '170: dev runs without a build once miniflare is installed, with the library of Node 22',
    async () => {
      const { folder } = installed
      await symlink(join(ROOT, 'node_modules/miniflare'), join(folder, 'node_modules/miniflare'))

      // What Node 24 has and Node 22 has not.
      const newer = 'AsyncDisposableStack DisposableStack SuppressedError URLPattern Float16Array'.split(' ')
      const remove = `data:text/javascript,for (const name of ${JSON.stringify(newer)}) delete globalThis[name]`
      const args = [`--import=${remove}`, BIN, 'dev', '--json', '--quiet', '--port', '0', '--rest-port', '0']
      const child = spawn(process.execPath, args, { cwd: folder, stdio: ['ignore', 'pipe', 'inherit'] })
      onTestFinished(() => void child.kill())
      const [line] = await once(createInterface(child.stdout), 'line')
      const { url, tokens } = JSON.parse(line)
      for (const path of ['/healthz', '/docs', '/docs/viewer.js', '/docs/NOTICE', '/openapi.json'])
        expect((await fetch(`${url}${path}`)).status).toBe(200)
      const env = { EMQ_URL: url, EMQ_TOKEN: tokens.operator }
      const { stdout } = await outcomeOf(process.execPath, [BIN, 'enqueue', 'emails', '1'], {
        cwd: folder,
        env,
      })
      expect(stdout).toMatch(/^JOB\w{11} enqueued\n$/)

      child.kill('SIGINT')
      expect(await once(child, 'exit')).toEqual([0, null])
    },
    STARTING_TIMEOUT_MS,
  )
})
