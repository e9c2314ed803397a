/**
 * The host names under which the local stack answers. A web page can give its own name the address 127.0.0.1 and then
 * read the answers; its requests still carry that name in `Host`.
 */

const LOCAL_HOST = /^(127\.0\.0\.1|localhost|\[::1\])(:\d+)?$/i

export const FOREIGN_HOST = 'The local stack answers only to the hosts 127.0.0.1, localhost and [::1].'

/** Returns whether the header `Host` names this machine. */
export function isLocalHost(host: string | undefined): boolean {
  return LOCAL_HOST.test(host ?? '')
}

/** Returns the source of a module that is the Worker of the module `main`, behind the check of the host. */
export function guardedWorker(main: string): string {
  const module = JSON.stringify(`./${main}`)
  return `
import worker from ${module}
export * from ${module}
export default {
  ...worker,
  fetch(request, ...rest) {
    if (${LOCAL_HOST}.test(request.headers.get('host') ?? '')) return worker.fetch(request, ...rest)
    return new Response(${JSON.stringify(`${FOREIGN_HOST}\n`)}, { status: 421 })
  },
}
`
}
