/** Whole programs that connect to the machine and list its resources, and how to run them. Pure. */

import { type CodeConnection, goProgram, KEY_WORDS, type Language, pythonProgram } from "./code.ts";

export type ConnectLanguage = Language | "flutter";

export const CONNECT_LANGUAGES: readonly {
  readonly id: ConnectLanguage;
  readonly title: string;
  readonly note?: string;
}[] = [
  { id: "python", title: "Python" },
  {
    id: "typescript",
    title: "TypeScript",
    note:
      "A page in a browser needs only the part from createRobotClient on, and imports it from the library.",
  },
  { id: "go", title: "Go" },
  { id: "flutter", title: "Flutter" },
];

interface RunSteps {
  readonly install: string;
  readonly file: string;
  readonly run: string;
}

export const RUN_STEPS: Readonly<Record<ConnectLanguage, RunSteps>> = {
  python: { install: "pip install viam-sdk", file: "main.py", run: "python main.py" },
  typescript: {
    install: "npm install @viamrobotics/sdk @connectrpc/connect-node@1 node-datachannel",
    file: "main.mjs",
    run: "node main.mjs",
  },
  go: {
    install: "go mod init client && go get go.viam.com/rdk/robot/client",
    file: "main.go",
    run: "go mod tidy && go run .",
  },
  flutter: { install: "flutter pub add viam_sdk", file: "lib/main.dart", run: "flutter run" },
};

export function connectCode(language: ConnectLanguage, connection: CodeConnection): string {
  switch (language) {
    case "python":
      return pythonProgram(["print(machine.resource_names)"], connection, []);
    case "typescript":
      return nodeProgram(connection);
    case "go":
      return goProgram(["fmt.Println(machine.ResourceNames())"], connection, ['"fmt"']);
    case "flutter":
      return flutterProgram(connection);
  }
}

/** Node has no WebRTC, and the library takes its HTTP/2 from a package. */
function nodeProgram({ address, guarded, key = KEY_WORDS }: CodeConnection): string {
  const [id, payload] = [key.id, key.key].map((one) => JSON.stringify(one));
  return [
    'import * as webrtc from "node-datachannel/polyfill";',
    'import { createGrpcTransport } from "@connectrpc/connect-node";',
    "",
    "Object.assign(globalThis, webrtc);",
    "globalThis.VIAM = {",
    '  GRPC_TRANSPORT_FACTORY: (options) => createGrpcTransport({ httpVersion: "2", ...options }),',
    "};",
    'const { createRobotClient } = await import("@viamrobotics/sdk");',
    "",
    "const machine = await createRobotClient({",
    `  host: ${JSON.stringify(new URL(address).host)},`,
    `  signalingAddress: ${JSON.stringify(address)},`,
    ...guarded ? [`  credentials: { type: "api-key", authEntity: ${id}, payload: ${payload} },`] : [],
    "});",
    "console.log(await machine.resourceNames());",
    "await machine.disconnect();",
    "process.exit(0);",
  ].join("\n");
}

function flutterProgram({ address, guarded, key = KEY_WORDS }: CodeConnection): string {
  const { host, protocol } = new URL(address);
  const [id, payload] = [key.id, key.key].map(dartText);
  return [
    "import 'package:viam_sdk/viam_sdk.dart';",
    "",
    "Future<void> main() async {",
    guarded
      ? `  final options = RobotClientOptions.withApiKey(${id}, ${payload});`
      : "  final options = RobotClientOptions();",
    ...protocol === "http:" ? ["  options.dialOptions.insecure = true;"] : [],
    "  options.dialOptions.attemptMdns = false;",
    "  options.dialOptions.webRtcOptions = DialWebRtcOptions()..disable = true;",
    `  final machine = await RobotClient.atAddress(${dartText(host)}, options);`,
    "  print(machine.resourceNames);",
    "  await machine.close();",
    "}",
  ].join("\n");
}

function dartText(text: string): string {
  return `'${text.replaceAll(/[\\'$]/g, String.raw`\$&`)}'`;
}
