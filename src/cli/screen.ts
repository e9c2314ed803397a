/** A few lines at the bottom of a terminal that are drawn over again. */

export type Screen = { draw(lines: readonly string[]): void }

export function createScreen(output: NodeJS.WriteStream): Screen {
  let height = 0
  return {
    draw(lines) {
      // Longer lines would wrap, and the way back up would be too short.
      const fitting = lines.map((line) => line.slice(0, (output.columns || 80) - 1))
      const up = height === 0 ? '' : `\u001b[${height}A`
      output.write(`${up}\r\u001b[J${fitting.map((line) => `${line}\n`).join('')}`)
      height = lines.length
    },
  }
}
