/**
 * Wake-ups on Cloudflare: one Durable Object for each queue. A waiting claim holds a hibernating WebSocket to it, so
 * that neither side is billed while nothing happens. Whatever fails here, a claim polls instead and an enqueue
 * notices nothing.
 *
 * Messages to a waiting claim: the number of the wake-up. Messages from it: a `Report` as JSON. A claim that leaves closes
 * with `LEFT` and a `Goodbye` as JSON.
 */
import { DurableObject, waitUntil } from 'cloudflare:workers'
import type { News } from '../queue/news.ts'
import { type Bell, createBell, type Entry, type Report } from './bell.ts'
import { createWaiter } from './waiter.ts'
import { POLLING, type Wake } from './wake.ts'

/** A WebSocket of a Durable Object: it keeps a value while the object hibernates. */
export interface ServerSocket extends WebSocket {
  serializeAttachment(value: unknown): void
  deserializeAttachment(): unknown
}

/** The code of a WebSocket that a waiting claim closed itself. */
const LEFT = 4000

/** What a waiting claim says when it leaves. */
type Goodbye = { readonly wakeUp?: number | undefined; readonly dueInMs?: number | undefined }

/** How long a Durable Object may take to register a claim, in milliseconds: a claim does not wait for it. */
const REGISTER_MS = 1_000
/** How long one ring may take, in milliseconds; what comes meanwhile goes with the next one. */
const RING_MS = 5_000

/** The bell of one queue, as the class `QueueBell` of the Worker. */
export class QueueBell extends DurableObject {
  readonly #bell: Bell<ServerSocket> = createBell<ServerSocket>({
    all: () => this.#sockets().filter(({ readyState }) => readyState === WebSocket.OPEN),
    read: (socket) => socket.deserializeAttachment() as Entry,
    write: (socket, entry) => socket.serializeAttachment(entry),
    wake: (socket, wakeUp) => socket.send(String(wakeUp)),
    planDue: (dueInMs) => this.ctx.waitUntil(this.#plan(Date.now() + dueInMs)),
    // A pending timer keeps the object awake, for a second at most.
    after: (ms, run) => void setTimeout(run, ms),
  })

  #sockets(): ServerSocket[] {
    return this.ctx.getWebSockets() as ServerSocket[]
  }

  async #plan(at: number): Promise<void> {
    const planned = await this.ctx.storage.getAlarm()
    if (planned === null || at < planned) await this.ctx.storage.setAlarm(at)
  }

  override async fetch(request: Request): Promise<Response> {
    if (request.method === 'POST') {
      this.#bell.ring((await request.json()) as News)
      return new Response(null, { status: 204 })
    }
    const { 0: client, 1: socket } = new WebSocketPair()
    const server = socket as ServerSocket
    const orders = this.#sockets().map((socket) => (socket.deserializeAttachment() as Entry).order)
    this.ctx.acceptWebSocket(server)
    server.serializeAttachment({
      order: Math.max(0, ...orders) + 1,
      state: 'idle',
      wakeUps: 0,
    } satisfies Entry)
    return new Response(null, { status: 101, webSocket: client } as ResponseInit)
  }

  override webSocketMessage(socket: ServerSocket, message: string): void {
    this.#bell.report(socket, JSON.parse(message) as Report)
  }

  override webSocketClose(socket: ServerSocket, code: number, reason: string): void {
    const { wakeUp, dueInMs }: Goodbye = code === LEFT ? JSON.parse(reason) : {}
    this.#bell.leave(socket.deserializeAttachment() as Entry, wakeUp, dueInMs)
  }

  override webSocketError(socket: ServerSocket): void {
    this.#bell.leave(socket.deserializeAttachment() as Entry, undefined)
  }

  override alarm(): void {
    this.#bell.due()
  }
}

/** Two rings as one. */
export const merged = (first: News | undefined, second: News): News => {
  const due = [first?.dueInMs, second.dueInMs].filter((ms) => ms !== undefined)
  return {
    jobs: (first?.jobs ?? 0) + (second.jobs ?? 0),
    ...(due.length > 0 && { dueInMs: Math.min(...due) }),
    paused: second.paused ?? first?.paused,
  }
}

/** What an isolate has to tell the bell of one queue. */
type Outbox = { news: News | undefined; sentAt: number }

/** Wake-ups over the binding `EMQ_WAKE`. */
export function createDurableWake(bells: BellNamespace): Wake {
  const outboxes = new Map<string, Outbox>()

  async function send(queue: string, outbox: Outbox): Promise<void> {
    while (outbox.news !== undefined) {
      const body = JSON.stringify(outbox.news)
      outbox.news = undefined
      outbox.sentAt = Date.now()
      // A ring that fails is a lost hint.
      await bells
        .get(bells.idFromName(queue))
        .fetch('https://bell/', { method: 'POST', body, signal: AbortSignal.timeout(RING_MS) })
        .then((response) => response.body?.cancel())
        .catch(() => undefined)
    }
    outboxes.delete(queue)
  }

  return {
    async register(queue, signal) {
      const late = new AbortController()
      const timer = setTimeout(() => late.abort(), REGISTER_MS)
      try {
        const { webSocket: socket } = (await bells
          .get(bells.idFromName(queue))
          .fetch('https://bell/', { headers: { Upgrade: 'websocket' }, signal: late.signal })) as Response & {
          readonly webSocket?: ClientSocket | null
        }
        if (!socket) return undefined
        socket.accept()
        const waiter = createWaiter(signal, {
          report: (report) => socket.send(JSON.stringify(report)),
          leave: (wakeUp, dueInMs) =>
            socket.close(LEFT, JSON.stringify({ wakeUp, dueInMs } satisfies Goodbye)),
        })
        socket.addEventListener('message', ({ data }) => waiter.wake(Number(data)))
        for (const end of ['close', 'error'] as const) socket.addEventListener(end, waiter.lose)
        return waiter.registration
      } catch {
        return undefined
      } finally {
        // From here on an abort would close the WebSocket.
        clearTimeout(timer)
      }
    },

    ring(queue, news) {
      const outbox = outboxes.get(queue)
      // The request that sends may have been ended by the platform: after its time another one sends.
      if (outbox !== undefined && Date.now() - outbox.sentAt < RING_MS) {
        outbox.news = merged(outbox.news, news)
        return
      }
      const fresh: Outbox = { news: merged(outbox?.news, news), sentAt: Date.now() }
      outboxes.set(queue, fresh)
      waitUntil(send(queue, fresh))
    },
  }
}

/** The wake-ups of a Worker with these bindings: without the binding `EMQ_WAKE`, waiting claims poll. */
export function durableWakeOf({ EMQ_WAKE: bells }: Readonly<Record<string, unknown>>): Wake {
  return typeof bells === 'object' && bells !== null ? createDurableWake(bells as BellNamespace) : POLLING
}
