/** Builds the package into dist/: ES modules with types. Only `npm pack` needs this; the project runs from its sources. */
import { writeFile } from 'node:fs/promises'
import { defineConfig } from 'tsdown'
import { ROUTES } from './src/app.ts'
import { makeReference } from './src/reference/reference.ts'
import { buildWorker } from './src/stack/wrangler.ts'
import { BUNDLED } from './src/tools/licences.ts'
import { makeSite } from './src/tools/site.ts'

/** For every host with web standards. */
const anywhere = { platform: 'neutral', target: 'es2022', dts: true } as const

export default defineConfig([
  // One file without imports.
  { ...anywhere, entry: { client: 'src/client/index.ts' } },
  { ...anywhere, entry: { index: 'src/index.ts', bundle: 'src/bundle.ts' } },
  {
    ...anywhere,
    entry: { worker: 'src/worker.ts' },
    deps: { neverBundle: ['cloudflare:workers'] },
    // The condition under which package.json chooses the files for Workers.
    inputOptions: { resolve: { conditionNames: ['workerd', 'import', 'default'] } },
    plugins: [bundledDocument()],
  },
  {
    // The command line, and the process that runs the Worker for `dev`.
    entry: { main: 'src/cli/main.ts', 'worker-host': 'src/stack/worker-host.ts' },
    outDir: 'dist/cli',
    platform: 'node',
    target: 'node20',
    fixedExtension: false,
    dts: false,
    // `dev` says how to install workerd. The other builds a Redis: few users need its half a megabyte.
    deps: { neverBundle: ['miniflare', /^redis-memory-server/], onlyBundle: BUNDLED },
    hooks: { 'build:done': addBuiltWorker },
  },
])

/** Puts the OpenAPI document into the package's Worker, whose users may deploy it without static assets. */
function bundledDocument() {
  const source = `export const bundledDocument = ${JSON.stringify(makeReference(ROUTES).document)}`
  return {
    name: 'bundled-document',
    load: (id: string) => (id.endsWith('/src/reference/bundled-document.ts') ? source : undefined),
  }
}

/** Adds the Worker that `dev` runs, exactly as it would be deployed, and the static assets of Workers. */
async function addBuiltWorker(): Promise<void> {
  const { assets, ...built } = await buildWorker()
  await writeFile('dist/cli/worker.json', JSON.stringify({ ...built, assetsBinding: assets?.binding }))
  await makeSite('dist/assets')
}
