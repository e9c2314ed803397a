/** A WebSocket of a Durable Object: it keeps a value while the object hibernates. */
export interface ServerSocket extends WebSocket {
  serializeAttachment(value: unknown): void
  deserializeAttachment(): unknown
}
