/**
 * The package, as it is built into dist/: ES modules with their types. `npm pack` builds first, nothing else does:
 * the project itself runs from its sources.
 */
import { defineConfig } from 'tsdown'

export default defineConfig([
  {
    // One file without an import, for whatever has `fetch`.
    entry: { client: 'src/client/index.ts' },
    platform: 'neutral',
    target: 'es2022',
    dts: true,
  },
  {
    entry: { index: 'src/package.ts', worker: 'src/index.ts', bundle: 'src/bundle.ts' },
    platform: 'neutral',
    target: 'es2022',
    dts: true,
    deps: { neverBundle: ['cloudflare:workers'] },
  },
])
