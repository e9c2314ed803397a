/**
 * Loaded in front of an example (`node --import`): `echomq-edge/client` is the client's source here, so that the
 * examples run without a build. That the built package exports it is tested where the package is.
 */
import { registerHooks } from 'node:module'

const SOURCE = new URL('../../../src/client/index.ts', import.meta.url).href

registerHooks({
  resolve: (specifier, context, next) =>
    next(specifier === 'echomq-edge/client' ? SOURCE : specifier, context),
})
