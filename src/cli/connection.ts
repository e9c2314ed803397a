/**
 * The deployment that the commands speak to.
 *
 * The API token comes from the environment only: what stands on a command line is seen by every user of the machine
 * and kept by the shell. It is never printed.
 */
import { Option } from 'commander'
import { EchoMQ, type Queue } from '../client/index.ts'
import { UsageError } from './usage-error.ts'

export type ConnectionOptions = { readonly url?: string }

export const urlOption = (): Option =>
  new Option('--url <url>', 'of the deployment; the token is read from EMQ_TOKEN').env('EMQ_URL')

/**
 * The queue, with its payloads as the very text that is stored: values would not keep the digits of their numbers.
 *
 * @throws {UsageError} when URL or token are missing.
 */
export function queueOf(name: string, { url }: ConnectionOptions): Queue<string> {
  const token = process.env['EMQ_TOKEN']
  if (!url) throw new UsageError('Where is the queue? Set EMQ_URL, or give --url <url>.')
  if (!token) throw new UsageError('The API token is missing: set EMQ_TOKEN.')
  return new EchoMQ({ url, token, fetch: readingText, userAgent: 'echomq-edge-cli' }).queue(name, {
    as: 'text',
  })
}

/** Reads of jobs ask for text, too. */
function readingText(address: string, init: RequestInit): Promise<Response> {
  const url = new URL(address)
  if (init.method === 'GET' && url.pathname.includes('/jobs')) url.searchParams.set('as', 'text')
  return fetch(url, init)
}

/** A token that was given as an option after all is refused before anything could repeat it. */
export function refuseTokenOption(args: readonly string[]): void {
  if (args.some((arg) => /^--?(api-)?token($|=)/.test(arg)))
    throw new UsageError(
      'There is no such option: set EMQ_TOKEN. A token on a command line is seen by every user of the machine.',
    )
}
