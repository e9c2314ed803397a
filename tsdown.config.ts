/**
 * The package, as it is built into dist/: ES modules with their types. `npm pack` builds first, nothing else does:
 * the project itself runs from its sources.
 */
import { cp, mkdir, rm, writeFile } from 'node:fs/promises'
import { defineConfig } from 'tsdown'
import { ROUTES } from './src/app.ts'
import { makeReference } from './src/reference/reference.ts'
import { buildWorker } from './src/stack/wrangler.ts'

/** For whatever has the standards of the web. */
const anywhere = { platform: 'neutral', target: 'es2022', dts: true } as const

export default defineConfig([
  // One file without an import.
  { ...anywhere, entry: { client: 'src/client/index.ts' } },
  { ...anywhere, entry: { index: 'src/index.ts', bundle: 'src/bundle.ts' } },
  {
    ...anywhere,
    entry: { worker: 'src/worker.ts' },
    deps: { neverBundle: ['cloudflare:workers'] },
    // What package.json has under `imports` for Workers.
    inputOptions: { resolve: { conditionNames: ['workerd', 'import', 'default'] } },
  },
  {
    // The command line, and the process that runs the Worker for its `dev`.
    entry: { main: 'src/cli/main.ts', 'worker-host': 'src/stack/worker-host.ts' },
    outDir: 'dist/cli',
    platform: 'node',
    target: 'node20',
    fixedExtension: false,
    dts: false,
    // Half a megabyte to build a Redis with, which hardly anybody needs: whoever does can install it.
    deps: { neverBundle: [/^redis-memory-server/] },
    hooks: { 'build:done': addBuiltWorker },
  },
])

/** Adds what `dev` runs, the very bytes that would be deployed from this version, and the static assets of Workers. */
async function addBuiltWorker(): Promise<void> {
  const { assets, ...built } = await buildWorker()
  await writeFile('dist/cli/worker.json', JSON.stringify({ ...built, assetsBinding: assets?.binding }))
  if (assets === undefined) return

  await rm('dist/assets', { recursive: true, force: true })
  await cp(assets.directory, 'dist/assets', { recursive: true })
  // The viewer of the reference is somebody else's work, and four times as large as all of the package.
  await rm('dist/assets/docs', { recursive: true })
  await mkdir('dist/assets/docs')
  const reference = await makeReference(ROUTES, { withViewer: false })
  await writeFile('dist/assets/docs/reference.json', JSON.stringify(reference))
}
