/** A progress bar: in place on a terminal, silent elsewhere. On stderr, so that results can be piped. */

const WIDTH = 24

/** `[########----------------]  33%  120/360` */
export function bar(done: number, total: number): string {
  const share = total === 0 ? 1 : Math.min(done / total, 1)
  const filled = Math.floor(share * WIDTH)
  const percent = `${Math.floor(share * 100)}%`.padStart(4)
  return `[${'#'.repeat(filled)}${'-'.repeat(WIDTH - filled)}] ${percent}  ${done}/${total}`
}

export type Progress = {
  show(done: number, total: number): void
  /** Leaves nothing of it. */
  clear(): void
}

export function startProgress(label: string): Progress {
  if (!process.stderr.isTTY) return { show: () => {}, clear: () => {} }
  return {
    show: (done, total) => void process.stderr.write(`\r\u001b[K${label} ${bar(done, total)}`),
    clear: () => void process.stderr.write('\r\u001b[K'),
  }
}
