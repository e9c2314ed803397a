/**
 * The deployment that the commands speak to.
 *
 * The API token comes from the environment only: what stands on a command line is seen by every user of the machine
 * and kept by the shell. It is never printed.
 */
import { Option } from 'commander'
import { EchoMQ, type EchoMQOptions, type Queue } from '../client/index.ts'
import { createTransport, type Transport } from '../client/transport.ts'
import { UsageError } from './usage-error.ts'

export type ConnectionOptions = { readonly url?: string }

export const urlOption = (): Option =>
  new Option('--url <url>', 'of the deployment; the token is read from EMQ_TOKEN').env('EMQ_URL')

/** @throws {UsageError} when URL or token are missing or cannot be right. */
function deploymentOf({ url }: ConnectionOptions): EchoMQOptions {
  const token = process.env['EMQ_TOKEN']
  if (!url) throw new UsageError('Where is the queue? Set EMQ_URL, or give --url <url>.')
  if (!token) throw new UsageError('The API token is missing: set EMQ_TOKEN.')
  if (!/^https?:\/\/[^\s?#@]+$/.test(url))
    throw new UsageError(
      'The URL (EMQ_URL or --url) must begin with http:// or https:// and end with the host or a path: no user, ?, # or space.',
    )
  if (!/^[!-~]+$/.test(token))
    throw new UsageError('The API token (EMQ_TOKEN) has a space, a line break or a letter that no token has.')
  return { url, token, userAgent: 'echomq-edge-cli' }
}

/**
 * The queue, with its payloads as the very text that is stored: values would not keep the digits of their numbers.
 *
 * @param send Sends payloads as the JSON that their text is, or as mere text.
 */
export function queueOf(
  name: string,
  options: ConnectionOptions,
  send: 'json' | 'text' = 'text',
): Queue<string> {
  const fetch = send === 'json' ? sendingJson : readingText
  return new EchoMQ({ ...deploymentOf(options), fetch }).queue(name, { as: 'text' })
}

/** For what the client has no verb for: requests, sent again as those of its verbs are. */
export const transportTo = (options: ConnectionOptions, fetch?: EchoMQOptions['fetch']): Transport =>
  createTransport({ ...deploymentOf(options), fetch })

/** Reads of jobs ask for text, too. */
function readingText(address: string, init: RequestInit): Promise<Response> {
  const url = new URL(address)
  if (init.method === 'GET' && url.pathname.includes('/jobs')) url.searchParams.set('as', 'text')
  return fetch(url, init)
}

/** The API sees a payload as it was typed, so it is the API that says what of it cannot be kept. */
function sendingJson(address: string, init: RequestInit): Promise<Response> {
  const { jobs, ...job } = JSON.parse(String(init.body))
  const body = jobs ? `{"jobs":[${jobs.map(withPayload).join()}]}` : withPayload(job)
  return fetch(address, { ...init, body })
}

const withPayload = ({ text, ...job }: { readonly text: string }): string =>
  `{"payload":${text},${JSON.stringify(job).slice(1)}`

/** A token that was given as an option after all is refused before anything could repeat it. */
export function refuseTokenOption(args: readonly string[]): void {
  if (args.some((arg) => /^--?(api-)?token($|=)/.test(arg)))
    throw new UsageError(
      'There is no such option: set EMQ_TOKEN. A token on a command line is seen by every user of the machine.',
    )
}
