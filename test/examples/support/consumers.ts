/** The three long-running consumers of the examples, behind one interface. */
import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Child, PROJECT, start, startNode } from './child.ts'

export type Place = {
  /** The URL of the Worker. */
  readonly url: string
  readonly redisUrl: string
  readonly mailUrl: string
  readonly queue: string
  /** The API token; by default the one of the development consumer. */
  readonly token?: string
  /** The lease of clients of Redis; clients of the API use the setting of the queue. */
  readonly leaseMs: number
  /** The script folder of clients of Redis; by default `lua/`. */
  readonly lua?: string
}

export type Kind = 'node' | 'go' | 'python'

export type Consumers = Readonly<Record<Kind, (place: Place) => Child>> & {
  /** Deletes the built programs. */
  remove(): void
}

/** Builds the Go consumer. */
export function buildConsumers(): Consumers {
  const folder = mkdtempSync(join(tmpdir(), 'emq-examples-'))
  const binary = join(folder, 'go-consumer')
  // GOPROXY is off: the consumer needs no module.
  execFileSync('go', ['build', '-o', binary, '.'], {
    cwd: join(PROJECT, 'examples/go-consumer'),
    env: { ...process.env, GOPROXY: 'off', GOFLAGS: '-mod=readonly' },
  })
  // The python3 in PATH may be a slow launcher.
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
