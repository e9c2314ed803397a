/** Output that is redrawn in place: a progress bar on stderr, and a few lines at the bottom of a terminal. */

import { plain } from './output.ts'

const BAR_WIDTH = 24

/** `[########----------------]  33%  120/360` */
export function bar(done: number, total: number): string {
  const share = total === 0 ? 1 : Math.min(done / total, 1)
  const filled = Math.floor(share * BAR_WIDTH)
  const percent = `${Math.floor(share * 100)}%`.padStart(4)
  return `[${'#'.repeat(filled)}${'-'.repeat(BAR_WIDTH - filled)}] ${percent}  ${done}/${total}`
}

/** One line on stderr that replaces the previous one; an empty text removes it. Silent where stderr is not a terminal. */
export function showStatus(text: string): void {
  if (process.stderr.isTTY) process.stderr.write(`\r\u001b[K${text}`)
}

/** A function that draws lines over those of its previous call. */
export function createScreen(output: NodeJS.WriteStream): (lines: readonly string[]) => void {
  let height = 0
  return (lines) => {
    // A longer line would wrap, and the cursor would move up too few lines.
    const fitting = lines.map((line) => plain(line).slice(0, (output.columns || 80) - 1))
    const up = height === 0 ? '' : `\u001b[${height}A`
    output.write(`${up}\r\u001b[J${fitting.map((line) => `${line}\n`).join('')}`)
    height = lines.length
  }
}
