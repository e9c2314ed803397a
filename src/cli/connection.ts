/**
 * The connection to the deployment that the commands use.
 *
 * The API token comes from the environment only: every user of the machine can see a command line, and the shell keeps
 * it. The token is never printed.
 */
import { Option } from 'commander'
import { EchoMQ, EchoMQError, type EchoMQOptions, type Queue, type QueueStats } from '../client/index.ts'
import { createTransport, queryOf, type Transport } from '../client/transport.ts'
import { UsageError } from './failure.ts'

export type ConnectionOptions = { readonly url?: string }

export function urlOption(): Option {
  return new Option('--url <url>', 'URL of the deployment; the token comes from EMQ_TOKEN').env('EMQ_URL')
}

/** @throws {UsageError} when the URL or the token is missing or malformed. */
function deploymentOf({ url }: ConnectionOptions): EchoMQOptions {
  const token = process.env['EMQ_TOKEN']
  if (!url) throw new UsageError('The URL of the deployment is missing: set EMQ_URL, or give --url <url>.')
  if (!token) throw new UsageError('The API token is missing: set EMQ_TOKEN.')
  if (!/^https?:\/\/[^\s?#@]+$/.test(url))
    throw new UsageError(
      'The URL (EMQ_URL or --url) must begin with http:// or https:// and end with the host or a path: no user, ?, # or space.',
    )
  if (!/^[!-~]+$/.test(token))
    throw new UsageError(
      'The API token (EMQ_TOKEN) contains a space, a line break or a letter that no token has.',
    )
  return { url, token, userAgent: 'echomq-edge-cli' }
}

/**
 * A queue whose payloads are the exact stored text: JavaScript values would lose digits of large numbers.
 *
 * @param send Sends each payload as the JSON that its text is, or as plain text.
 */
export function queueOf(
  name: string,
  options: ConnectionOptions,
  send: 'json' | 'text' = 'text',
): Queue<string> {
  const fetch = send === 'json' ? sendJson : readText
  return new EchoMQ({ ...deploymentOf(options), fetch }).queue(name, { as: 'text' })
}

/** For requests without a verb of the client; they are repeated like those of its verbs. */
export function transportTo(options: ConnectionOptions, fetch?: EchoMQOptions['fetch']): Transport {
  return createTransport({ ...deploymentOf(options), fetch })
}

/**
 * Sends a request with another method than GET and POST, and repeats it as the client repeats its verbs.
 *
 * When an earlier attempt may have succeeded without an answer, `gone` means that it has.
 */
export async function sendWith<Answer extends object>(
  options: ConnectionOptions,
  method: 'PUT' | 'DELETE',
  path: string,
  body?: object,
): Promise<Answer> {
  let attempts = 0
  const { repeat, send } = transportTo(options, async (address, init) => {
    const answer = await fetch(address, { ...init, method })
    // The transport expects an object with a known field in every response.
    if (answer.status === 204) return Response.json({ answer: {} })
    return answer.ok ? Response.json({ answer: await answer.json() }) : answer
  })
  return repeat(async () => {
    attempts += 1
    try {
      return (await send<{ answer: Answer }>(path, 'answer', body && JSON.stringify(body))).answer
    } catch (error) {
      const isDone =
        method === 'DELETE' && attempts > 1 && error instanceof EchoMQError && error.code === 'gone'
      if (!isDone) throw error
      return {} as Answer
    }
  })
}

/** The numbers of all queues that the token may see. */
export async function listQueues(options: ConnectionOptions): Promise<QueueStats[]> {
  const { repeat, send } = transportTo(options)
  const queues: QueueStats[] = []
  let cursor: string | undefined
  do {
    const path = `/v1/queues${cursor === undefined ? '' : queryOf({ cursor })}`
    const page = await repeat(() => send<{ queues: QueueStats[]; cursor?: string }>(path, 'queues'))
    queues.push(...page.queues)
    cursor = page.cursor
  } while (cursor !== undefined)
  return queues
}

/** Whether the queue was ever used. */
export async function isKnown(queue: Queue<string>): Promise<boolean> {
  try {
    await queue.stats()
    return true
  } catch (error) {
    if (error instanceof EchoMQError && error.code === 'not_found') return false
    throw error
  }
}

/** Makes reads of jobs ask for text. */
function readText(address: string, init: RequestInit): Promise<Response> {
  const url = new URL(address)
  if (init.method === undefined && url.pathname.includes('/jobs')) url.searchParams.set('as', 'text')
  return fetch(url, init)
}

/** Sends each payload exactly as it was typed, so that the API itself judges it. */
function sendJson(address: string, init: RequestInit): Promise<Response> {
  const { jobs, ...rest } = JSON.parse(String(init.body))
  const body = jobs
    ? `{"jobs":[${jobs.map(withPayload).join()}],${JSON.stringify(rest).slice(1)}`
    : withPayload(rest)
  return fetch(address, { ...init, body })
}

function withPayload({ text, ...job }: { readonly text: string }): string {
  const members = JSON.stringify(job).slice(1, -1)
  return `{"payload":${text}${members && `,${members}`}}`
}

/** Rejects a token on the command line, before anything could print it. */
export function refuseTokenOption(args: readonly string[]): void {
  if (args.some((arg) => /^--?(api-)?token($|=)/.test(arg)))
    throw new UsageError(
      'There is no such option: set EMQ_TOKEN. Every user of the machine can see a token on a command line.',
    )
}
