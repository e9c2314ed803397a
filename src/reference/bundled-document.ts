/**
 * The OpenAPI document as a part of the code. The build of the package puts it here for `echomq-edge/worker`, which
 * may be deployed without static assets. The Worker of this project always has its assets, and stays smaller.
 */
export const bundledDocument: string | undefined = undefined
