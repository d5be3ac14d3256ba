/**
 * The first stage: whether the type check and the check of floating promises refuse a mutant. They look at the mutated
 * file alone, in a program that is kept, so a mutant costs a fraction of a second.
 */

import denoJson from "../../deno.json" with { type: "json" };
import ts from "typescript";
import { floatingIn } from "../floating_promises.ts";
import { run } from "../interop/programs.ts";

export class TypeCheck {
  readonly #service: ts.LanguageService;
  readonly #texts = new Map<string, { text: string; version: number }>();
  /** What the checker says of a file without a mutant: most packages have no types here. */
  readonly #before = new Map<string, ReadonlySet<string>>();

  /** @param files absolute paths of the whole tree @param options of the compiler @param types Deno's own */
  constructor(files: readonly string[], options: ts.CompilerOptions, types: string) {
    const names = [types, ...files];
    const read = (path: string) => this.#texts.get(path)?.text ?? ts.sys.readFile(path);
    this.#service = ts.createLanguageService({
      getScriptFileNames: () => [...names],
      getScriptVersion: (path) => String(this.#texts.get(path)?.version ?? 0),
      getScriptSnapshot: (path) => {
        const text = read(path);
        return text === undefined ? undefined : ts.ScriptSnapshot.fromString(text);
      },
      getCurrentDirectory: () => ts.sys.getCurrentDirectory(),
      getCompilationSettings: () => options,
      getDefaultLibFileName: (given) => ts.getDefaultLibFilePath(given),
      fileExists: ts.sys.fileExists,
      readFile: read,
    });
  }

  /** Whether the text in place of a file's own has an error that the file has not. */
  refuses(file: string, own: string, mutated: string): boolean {
    let before = this.#before.get(file);
    if (!before) this.#before.set(file, before = this.#errors(file, own));
    const errors = this.#errors(file, mutated);
    this.#set(file, own);
    return [...errors].some((error) => !before.has(error));
  }

  #errors(file: string, text: string): Set<string> {
    this.#set(file, text);
    const found = new Set<string>();
    for (const { code, messageText } of this.#service.getSemanticDiagnostics(file)) {
      found.add(`${code} ${ts.flattenDiagnosticMessageText(messageText, " ")}`);
    }
    for (const { code } of this.#service.getSyntacticDiagnostics(file)) found.add(`syntax ${code}`);
    const program = this.#service.getProgram()!;
    const floating = floatingIn(program.getSourceFile(file)!, program.getTypeChecker());
    for (const { text } of floating) found.add(`floating ${text}`);
    return found;
  }

  #set(path: string, text: string): void {
    const version = (this.#texts.get(path)?.version ?? 0) + 1;
    this.#texts.set(path, { text, version });
  }
}

/** Where the types of messages are, for `paths` of the compiler's options: without them every call returns anything. */
export async function messagePaths(): Promise<ts.MapLike<string[]>> {
  const name = "@bufbuild/protobuf";
  const version = denoJson.imports[name].split("@").at(-1);
  const info = await run([Deno.execPath(), "info", "--json"]);
  const { npmCache } = JSON.parse(info.stdout);
  const registries = await Array.fromAsync(Deno.readDir(npmCache), (entry) => entry.name);
  const folders = registries.map((registry) => `${npmCache}/${registry}/${name}/${version}/dist/esm`);
  return {
    [name]: folders.map((folder) => `${folder}/index.d.ts`),
    [`${name}/*`]: folders.map((folder) => `${folder}/*/index.d.ts`),
  };
}
