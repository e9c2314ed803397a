/**
 * The compiler with the project's options, for the project's files and for files that exist only in a test: it checks
 * the types of code in documents and comments.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import ts from 'typescript'

export const PROJECT = fileURLToPath(new URL('../..', import.meta.url))

const config = ts.parseJsonConfigFileContent(
  JSON.parse(readFileSync(join(PROJECT, 'tsconfig.json'), 'utf8')),
  ts.sys,
  PROJECT,
)

/** The files of the project below a folder. */
export const filesBelow = (folder: string): string[] =>
  config.fileNames.filter((file) => file.startsWith(join(PROJECT, folder)))

/**
 * @param files Absolute paths.
 * @param made Sources by absolute path, of files that do not exist.
 */
export function programOf(
  files: readonly string[],
  made: Readonly<Record<string, string>> = {},
  options: ts.CompilerOptions = {},
): ts.Program {
  const all = { ...config.options, ...options }
  const host = ts.createCompilerHost(all)
  const { getSourceFile, fileExists } = host
  host.fileExists = (file) => file in made || fileExists(file)
  host.getSourceFile = (file, version) => {
    const source = made[file]
    return source === undefined ? getSourceFile(file, version) : ts.createSourceFile(file, source, version)
  }
  return ts.createProgram([...files, ...Object.keys(made)], all, host)
}

/** The compiler's errors in files of a program, as text; empty when there are none. */
export function wrongIn(program: ts.Program, files: readonly string[]): string {
  const wrong = files.flatMap((file) => {
    const parsed = program.getSourceFile(file)
    return [...program.getSyntacticDiagnostics(parsed), ...program.getSemanticDiagnostics(parsed)]
  })
  return ts.formatDiagnostics(wrong, {
    getCanonicalFileName: (file) => file,
    getCurrentDirectory: () => PROJECT,
    getNewLine: () => '\n',
  })
}
