/**
 * The three long-running consumers of the examples, started alike.
 */
import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Child, PROJECT, start, startNode } from './child.ts'

export type Place = {
  /** Of the Worker. */
  readonly url: string
  readonly redisUrl: string
  readonly mailUrl: string
  readonly queue: string
  /** Of the API; the development consumer's unless told otherwise. */
  readonly token?: string
  /** For clients of Redis; those of the API take the queue's own. */
  readonly leaseMs: number
  /** Another folder than `lua/`, for clients of Redis. */
  readonly lua?: string
}

export type Kind = 'node' | 'go' | 'python'

export type Consumers = Readonly<Record<Kind, (place: Place) => Child>> & {
  /** Removes what was built. */
  remove(): void
}

/** Builds what has to be built. */
export function buildConsumers(): Consumers {
  const folder = mkdtempSync(join(tmpdir(), 'emq-examples-'))
  const binary = join(folder, 'go-consumer')
  // No module may be fetched: there is none.
  execFileSync('go', ['build', '-o', binary, '.'], {
    cwd: join(PROJECT, 'examples/go-consumer'),
    env: { ...process.env, GOPROXY: 'off', GOFLAGS: '-mod=readonly' },
  })
  // What is in PATH may be a launcher, and a slow one.
  const python = execFileSync('python3', ['-c', 'import sys; print(sys.executable)'], {
    encoding: 'utf8',
  }).trim()
  return {
    node: ({ url, mailUrl, queue, token = 'dev-consumer' }) =>
      startNode('examples/node-consumer/consumer.ts', {
        EMQ_URL: url,
        EMQ_TOKEN: token,
        EMQ_QUEUE: queue,
        MAIL_URL: mailUrl,
      }),
    go: ({ redisUrl, mailUrl, queue, leaseMs, lua = 'lua' }) =>
      start(
        binary,
        [
          ...['-queue', queue, '-lua', join(PROJECT, lua), '-lease', `${leaseMs}ms`],
          ...['-idle', '20ms', '-pump', '50ms', '-backoff', '50ms'],
        ],
        { REDIS_URL: redisUrl, MAIL_URL: mailUrl },
      ),
    python: ({ redisUrl, mailUrl, queue, leaseMs, lua = 'lua' }) =>
      start(
        python,
        [
          ...['examples/python-consumer/consumer.py', '--queue', queue, '--lua', join(PROJECT, lua)],
          ...['--lease', `${leaseMs / 1000}`, '--idle', '0.02', '--pump', '0.05', '--backoff', '0.05'],
        ],
        { REDIS_URL: redisUrl, MAIL_URL: mailUrl, PYTHONDONTWRITEBYTECODE: '1' },
      ),
    remove: () => rmSync(folder, { recursive: true }),
  }
}
