/** As much of the Workers runtime as the wake-ups use. The real types are those of the Worker's owner. */

/** A WebSocket that a `fetch` with `Upgrade` returned. */
interface ClientSocket extends WebSocket {
  accept(): void
}

declare class WebSocketPair {
  readonly 0: WebSocket
  readonly 1: WebSocket
}

/** The binding to the Durable Objects. */
interface BellNamespace {
  idFromName(name: string): unknown
  get(id: unknown): { fetch(url: string, init?: RequestInit): Promise<Response> }
}

declare module 'cloudflare:workers' {
  export abstract class DurableObject<Env = unknown> {
    protected readonly ctx: {
      acceptWebSocket(socket: WebSocket): void
      getWebSockets(): WebSocket[]
      waitUntil(work: Promise<unknown>): void
      readonly storage: {
        getAlarm(): Promise<number | null>
        setAlarm(at: number): Promise<void>
      }
    }
    constructor(ctx: unknown, env: Env)
    fetch?(request: Request): Promise<Response>
    alarm?(): void | Promise<void>
    webSocketMessage?(socket: WebSocket, message: string): void
    webSocketClose?(socket: WebSocket, code: number, reason: string): void
    webSocketError?(socket: WebSocket): void
  }
  /** Keeps the request's work alive after its response. */
  export function waitUntil(work: Promise<unknown>): void
}
