/**
 * Stubs of every method of a resource type: from the types of the library for TypeScript, and from the table of the
 * published library for Python. Pure.
 */

import { SvcError } from "../../../lib/base/error.ts";
import { didYouMean } from "../../../lib/base/schema/suggest.ts";
import { PYTHON_CLASSES } from "./python_classes.ts";

/** Every resource has these methods from the library. */
const GIVEN = ["Resource", "Component"];

/** A method of an interface. */
export interface MethodStub {
  /** The lines of its comment. */
  readonly about: readonly string[];
  readonly name: string;
  /** Names of its parameters. */
  readonly parameters: readonly string[];
  readonly isPromise: boolean;
}

/** A type of the library in TypeScript: the word of its API, such as `MotorApi`, and its methods. */
export interface TypeScriptClass {
  readonly api: string;
  readonly methods: readonly MethodStub[];
}

/** Words in which the names of APIs and of types differ. */
const PASCAL: { readonly [api: string]: string | undefined } = {
  "rdk:service:generic": "GenericService",
  "rdk:service:mlmodel": "MlModel",
};

/** `types`: the text of the library's `mod.d.ts`. Throws `invalid_argument` for an API that it does not have. */
export function typeScriptClass(types: string, api: string): TypeScriptClass {
  const words = [...types.matchAll(/^export declare const (\w+)Api: Api<(\w+)>/gm)];
  const wanted = PASCAL[api] ?? pascal(api.split(":").at(-1)!);
  const [, , type] = words.find(([, word]) => word === wanted) ?? [];
  if (type === undefined) throw unknownApi(api, words.map(([, word = ""]) => word));
  return { api: `${wanted}Api`, methods: methodsOf(types, type) };
}

function pascal(word: string): string {
  return word.split("_").map((part) => part.charAt(0).toUpperCase() + part.slice(1)).join("");
}

/** The methods of an interface and of those that it extends. */
function methodsOf(types: string, name: string): MethodStub[] {
  if (GIVEN.includes(name)) return [];
  const pattern = new RegExp(`^(?:export )?interface ${name}(?: extends ([\\w, ]+))? \\{\n(.*?)^\\}`, "ms");
  const [, bases = "", body = ""] = pattern.exec(types) ?? [];
  const inherited = bases.split(",").map((base) => base.trim()).filter(Boolean).flatMap((base) =>
    methodsOf(types, base)
  );
  return [...inherited, ...ownMethods(body)];
}

function ownMethods(body: string): MethodStub[] {
  const methods: MethodStub[] = [];
  let about: string[] = [];
  for (const [text] of body.matchAll(/^\t\/\*\*.*?\*\/$|^\t(\w+)\((?:.*?)\): (?:[^\n{]|\{.*?^\t\})*;$/gms)) {
    if (text.startsWith("\t/**")) {
      about = text.replace(/^\t\/\*\*|\*\/$/g, "").split("\n").map((line) =>
        line.replace(/^\s*\*?\s?/, "").trim()
      );
      continue;
    }
    const [, name = "", parameters = "", result = ""] = /^\t(\w+)\((.*)\): (.*)$/s.exec(text)!;
    methods.push({
      about: about.filter(Boolean),
      name,
      parameters: parametersOf(parameters),
      isPromise: result.startsWith("Promise<"),
    });
    about = [];
  }
  return methods;
}

/** The names in `a: number, options?: { b: string }, call?: Call`. */
function parametersOf(text: string): string[] {
  const names: string[] = [];
  let depth = 0;
  let begin = 0;
  for (let at = 0; at <= text.length; at++) {
    const letter = text[at] ?? ",";
    if ("([{<".includes(letter)) depth++;
    if (")]}".includes(letter) || (letter === ">" && text[at - 1] !== "=")) depth--;
    if (letter !== "," || depth > 0) continue;
    const [name] = /^\w+/.exec(text.slice(begin, at).trim()) ?? [];
    if (name) names.push(name);
    begin = at + 1;
  }
  return names;
}

export interface PythonClass {
  /** `viam.components.motor.motor` */
  readonly module: string;
  /** `Motor` */
  readonly name: string;
  readonly imports: readonly string[];
  /** `async def stop(self) -> None:` */
  readonly lines: readonly string[];
}

/** Throws `invalid_argument` for an API that the library does not have. */
export function pythonClass(api: string): PythonClass {
  const classes = PYTHON_CLASSES.trim().split("\n\n").map((block) => {
    const [head = "", ...rest] = block.split("\n");
    const [of = "", module = "", name = ""] = head.split(" ");
    return { of, module, name, rest };
  });
  const found = classes.find(({ of }) => of === api);
  if (!found) throw unknownApi(api, classes.map(({ of }) => of));

  const { module, name, rest } = found;
  return {
    module,
    name,
    imports: rest.filter((line) => line.startsWith("from ")),
    lines: rest.filter((line) => !line.startsWith("from ")),
  };
}

function unknownApi(api: string, known: readonly string[]): SvcError {
  const hint = didYouMean(api.split(":").at(-1)!, known.map((one) => one.split(":").at(-1)!));
  return new SvcError(
    "invalid_argument",
    `no stubs can be written for "${api}", wanted one of ${known.join(", ")}${hint}`,
  );
}
