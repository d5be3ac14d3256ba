/**
 * A call as a program of the published libraries, in Python, TypeScript and Go.
 *
 * The cards name calls as the library for TypeScript does; its method and argument names lead to those of the other
 * two. Pure functions; the key of the person is never part of the text.
 */

export type Language = "python" | "typescript" | "go";

export const CODE_LANGUAGES: readonly { readonly id: Language; readonly title: string }[] = [
  { id: "python", title: "Python" },
  { id: "typescript", title: "TypeScript" },
  { id: "go", title: "Go" },
];

/** How a program reaches the machine. */
export interface CodeConnection {
  /** `http://robot.local:8080` */
  readonly address: string;
  /** Whether the machine asks for a key. */
  readonly guarded: boolean;
  /** A key to write into the program; without one there are words in its place. */
  readonly key?: { readonly id: string; readonly key: string };
}

/** The words in place of a key. */
export const KEY_WORDS = { id: "<key id>", key: "<key>" } as const;

export interface CodeRequest extends CodeConnection {
  /** `rdk:component:motor` */
  readonly api: string;
  readonly name: string;
  readonly method: string;
  readonly args: Readonly<Record<string, unknown>>;
}

/** Names of types that do not follow from the name of the API. */
const CLIENTS: { readonly [api: string]: string } = {
  "rdk:component:generic": "GenericComponentClient",
  "rdk:service:generic": "GenericServiceClient",
  "rdk:service:mlmodel": "MLModelClient",
  "rdk:component:audio_in": "AudioInClient",
  "rdk:component:audio_out": "AudioOutClient",
};
const PYTHON: { readonly [api: string]: readonly [module: string, name: string] } = {
  "rdk:service:mlmodel": ["viam.services.mlmodel", "MLModelClient"],
  "rdk:service:motion": ["viam.services.motion", "MotionClient"],
  "rdk:service:navigation": ["viam.services.navigation", "NavigationClient"],
  "rdk:service:slam": ["viam.services.slam", "SLAMClient"],
  "rdk:service:vision": ["viam.services.vision", "VisionClient"],
  "rdk:service:discovery": ["viam.services.discovery", "DiscoveryClient"],
  "rdk:component:input_controller": ["viam.components.input", "Controller"],
};
const GO: { readonly [api: string]: string } = {
  "rdk:component:input_controller": "input",
  "rdk:component:switch": "toggleswitch",
  "rdk:service:data_manager": "datamanager",
};

export function codeFor(language: Language, request: CodeRequest): string {
  const writers = { python: pythonCode, typescript: typescriptCode, go: goCode };
  return writers[language](request);
}

function pythonCode({ api, name, method, args, ...connection }: CodeRequest): string {
  const [, kind, type = ""] = api.split(":");
  const [module, className] = PYTHON[api] ?? [`viam.${kind}s.${type}`, pascal(type)];
  const given = Object.entries(args).filter(([, value]) => value !== undefined)
    .map(([key, value]) => `${snake(key)}=${pythonValue(value)}`);
  const variable = variableOf(name, "snake");
  return pythonProgram(
    [
      `${variable} = ${className}.from_robot(machine, ${JSON.stringify(name)})`,
      `print(await ${variable}.${snake(method)}(${given.join(", ")}))`,
    ],
    connection,
    [`from ${module} import ${className}`],
  );
}

export function pythonProgram(
  lines: readonly string[],
  { address, guarded, key = KEY_WORDS }: CodeConnection,
  imports: readonly string[],
): string {
  const { host } = new URL(address);
  const flags = [
    ...address.startsWith("https") ? [] : ["insecure=True"],
    ...guarded ? [] : ["disable_webrtc=True"],
  ];
  const [id, payload] = [key.id, key.key].map((one) => JSON.stringify(one));
  // The library's own helper for keys takes only identifiers that are UUIDs.
  const credentials = [`auth_entity=${id},`, `credentials=Credentials(type="api-key", payload=${payload}),`];
  const dial = [...flags.map((flag) => `${flag},`), ...guarded ? credentials : []];
  const options = [
    "    dial_options = DialOptions(",
    ...dial.map((line) => `        ${line}`),
    "    )",
    "    options = RobotClient.Options(dial_options=dial_options)",
  ];
  return [
    "import asyncio",
    "",
    ...imports,
    "from viam.robot.client import RobotClient",
    `from viam.rpc.dial import ${guarded ? "Credentials, " : ""}DialOptions`,
    "",
    "",
    "async def main():",
    ...options,
    `    machine = await RobotClient.at_address(${JSON.stringify(host)}, options)`,
    ...lines.map((line) => `    ${line}`),
    "    await machine.close()",
    "",
    "",
    "asyncio.run(main())",
  ].join("\n");
}

function typescriptCode({ api, name, method, args, ...connection }: CodeRequest): string {
  const [, , type = ""] = api.split(":");
  const className = CLIENTS[api] ?? `${pascal(type)}Client`;
  const given = Object.values(args).map(typescriptValue);
  while (given.at(-1) === "undefined") given.pop();
  const variable = variableOf(name, "camel");
  return typescriptProgram(
    [
      `const ${variable} = new ${className}(machine, ${JSON.stringify(name)});`,
      `console.log(await ${variable}.${method}(${given.join(", ")}));`,
    ],
    connection,
    [className],
  );
}

export function typescriptProgram(
  lines: readonly string[],
  { address, guarded, key = KEY_WORDS }: CodeConnection,
  imports: readonly string[],
): string {
  const [id, payload] = [key.id, key.key].map((one) => JSON.stringify(one));
  const credentials = `  credentials: { type: "api-key", authEntity: ${id}, payload: ${payload} },`;
  return [
    `import { ${["createRobotClient", ...imports].join(", ")} } from "@viamrobotics/sdk";`,
    "",
    "const machine = await createRobotClient({",
    `  host: ${JSON.stringify(new URL(address).host)},`,
    `  signalingAddress: ${JSON.stringify(address)},`,
    `  serviceHost: ${JSON.stringify(address)},`,
    ...guarded ? [credentials] : [],
    "});",
    ...lines,
    "await machine.disconnect();",
  ].join("\n");
}

function goCode({ api, name, method, args, ...connection }: CodeRequest): string {
  const [, kind, type = ""] = api.split(":");
  const pkg = GO[api] ?? type.replaceAll("_", "");
  const given = Object.values(args).filter((value) => value !== undefined).map(goValue);
  const takesExtra = method !== "doCommand" && method !== "isMoving";
  const all = ["ctx", ...given, ...takesExtra ? ["nil"] : []];
  const variable = variableOf(name, "camel");
  const path = `"go.viam.com/rdk/${kind}s/${pkg}"`;
  return goProgram(
    [
      `${variable}, err := ${pkg}.FromProvider(machine, ${JSON.stringify(name)})`,
      "if err != nil {",
      "\tpanic(err)",
      "}",
      `fmt.Println(${variable}.${pascal(snake(method))}(${all.join(", ")}))`,
    ],
    connection,
    ['"fmt"', path],
  );
}

export function goProgram(
  lines: readonly string[],
  { address, guarded, key = KEY_WORDS }: CodeConnection,
  imports: readonly string[],
): string {
  const { host, protocol } = new URL(address);
  const insecure = protocol === "http:" ? "rpc.WithInsecure(), " : "";
  const [id, payload] = [key.id, key.key].map((one) => JSON.stringify(one));
  const credentials =
    `rpc.WithEntityCredentials(${id}, rpc.Credentials{Type: rpc.CredentialsTypeAPIKey, Payload: ${payload}})`;
  const dial = guarded ? `${insecure}${credentials}` : insecure.replace(/, $/, "");
  const all = ['"context"', ...imports, '"go.viam.com/rdk/logging"', '"go.viam.com/rdk/robot/client"'];
  const packages = [...new Set(all), ...dial === "" ? [] : ['"go.viam.com/utils/rpc"']].sort((a, b) => {
    const outside = (path: string) => Number(path.includes("."));
    return outside(a) - outside(b) || (a < b ? -1 : 1);
  });
  return [
    "package main",
    "",
    "import (",
    ...packages.map((path) => `\t${path}`),
    ")",
    "",
    "func main() {",
    "\tctx := context.Background()",
    '\tlogger := logging.NewLogger("client")',
    `\tmachine, err := client.New(ctx, ${JSON.stringify(host)}, logger${
      dial === "" ? "" : `, client.WithDialOptions(${dial})`
    })`,
    "\tif err != nil {",
    "\t\tpanic(err)",
    "\t}",
    "\tdefer machine.Close(ctx)",
    ...lines.map((line) => `\t${line}`),
    "}",
  ].join("\n");
}

function pythonValue(value: unknown): string {
  if (value === null || value === undefined) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (typeof value === "bigint" || typeof value === "number") return String(value);
  if (value instanceof Uint8Array) return `bytes(${value.length})`;
  if (Array.isArray(value)) return `[${value.map(pythonValue).join(", ")}]`;
  if (typeof value !== "object") return JSON.stringify(value);
  const message = messageName(value);
  const fields = fieldsOf(value);
  if (message) {
    return `${message}(${fields.map(([key, one]) => `${snake(key)}=${pythonValue(one)}`).join(", ")})`;
  }
  return `{${fields.map(([key, one]) => `${JSON.stringify(key)}: ${pythonValue(one)}`).join(", ")}}`;
}

function typescriptValue(value: unknown): string {
  if (typeof value === "bigint") return `${value}n`;
  if (value === undefined || value === null || typeof value !== "object") {
    return JSON.stringify(value) ?? "undefined";
  }
  if (value instanceof Uint8Array) return `new Uint8Array(${value.length})`;
  if (Array.isArray(value)) return `[${value.map(typescriptValue).join(", ")}]`;
  const fields = fieldsOf(value).map(([key, one]) => {
    return `${/^\w+$/.test(key) ? key : JSON.stringify(key)}: ${typescriptValue(one)}`;
  });
  return fields.length === 0 ? "{}" : `{ ${fields.join(", ")} }`;
}

function goValue(value: unknown): string {
  if (value === null || value === undefined) return "nil";
  if (value instanceof Uint8Array) return `make([]byte, ${value.length})`;
  if (Array.isArray(value)) {
    const type = goType(value[0]);
    return `[]${type}{${value.map(goValue).join(", ")}}`;
  }
  if (typeof value !== "object") return typeof value === "string" ? JSON.stringify(value) : String(value);
  const message = messageName(value);
  const fields = fieldsOf(value);
  if (message) {
    return `&commonpb.${message}{${
      fields.map(([key, one]) => `${pascal(snake(key))}: ${goValue(one)}`).join(", ")
    }}`;
  }
  const entries = fields.map(([key, one]) => `${JSON.stringify(key)}: ${goValue(one)}`);
  return `map[string]interface{}{${entries.join(", ")}}`;
}

function goType(value: unknown): string {
  const types: Record<string, string> = { number: "float64", string: "string", boolean: "bool" };
  return types[typeof value] ?? "interface{}";
}

/** The short name of a message of a contract, `Pose`. */
function messageName(value: object): string | undefined {
  const type = (value as { getType?: () => { typeName: string } }).getType?.();
  return type?.typeName.split(".").at(-1);
}

function fieldsOf(value: object): [string, unknown][] {
  return Object.entries(value).filter(([, one]) => one !== undefined && typeof one !== "function");
}

function snake(name: string): string {
  return name.replaceAll(/([a-z0-9])([A-Z])/g, "$1_$2").toLowerCase();
}

function pascal(name: string): string {
  return name.split("_").map((word) => word.charAt(0).toUpperCase() + word.slice(1)).join("");
}

/** Words of the three languages, and names that the programs use themselves. */
const TAKEN = new Set(
  [
    "abstract and any as assert async await bool break byte case catch chan class client commonpb const context",
    "continue ctx def default defer del delete do elif else enum err error except export extends fallthrough false",
    "finally float32 float64 fmt for from func function global go goto if implements import in instanceof int",
    "interface is lambda len let logger logging machine main make map new nil none nonlocal not null options or",
    "package panic pass print private protected public raise range return rpc select static string struct super",
    "switch this throw true try type typeof uint undefined var void while with yield console asyncio dial_options",
    "createRobotClient robotClient dialOptions credentials",
  ].flatMap((line) => line.split(" ")),
);

/** A name that all three languages take for a variable. */
function variableOf(name: string, style: "snake" | "camel"): string {
  const words = name.split(/[^A-Za-z0-9]+/).filter((word) => word !== "");
  const joined = style === "snake"
    ? words.join("_").toLowerCase()
    : words.map((word, at) => at === 0 ? word.charAt(0).toLowerCase() + word.slice(1) : pascal(word)).join(
      "",
    );
  if (/^[A-Za-z]/.test(joined) && !TAKEN.has(joined)) return joined;
  const word = joined === "" ? "resource" : joined;
  return style === "snake" ? `the_${word}` : `the${word.charAt(0).toUpperCase()}${word.slice(1)}`;
}
