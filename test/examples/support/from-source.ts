/**
 * Loaded before an example (`node --import`): resolves `echomq-edge/client` to the client's source, so that the examples
 * run without a build. The tests of the package check the built export.
 */
import { registerHooks } from 'node:module'

const SOURCE = new URL('../../../src/client/index.ts', import.meta.url).href

registerHooks({
  resolve: (specifier, context, next) =>
    next(specifier === 'echomq-edge/client' ? SOURCE : specifier, context),
})
