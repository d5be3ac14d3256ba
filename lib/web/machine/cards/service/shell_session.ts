/** A shell on the machine as two streams of text. */

import { MethodKind, type ServiceType } from "@bufbuild/protobuf";
import type { RobotClient } from "@viamrobotics/sdk";
import { wireMessage } from "../../link/wire.ts";

export interface ShellLine {
  /** What the shell writes, without the codes that move a cursor or colour the text. */
  readonly output: AsyncIterable<string>;
  send(text: string): void;
  end(): void;
}

const Request = wireMessage("viam.service.shell.v1.ShellRequest", {
  name: [1, "string"],
  data_in: [2, "string"],
});
const Answer = wireMessage("viam.service.shell.v1.ShellResponse", {
  data_out: [1, "string"],
  data_err: [2, "string"],
  eof: [3, "bool"],
});
const Service = {
  typeName: "viam.service.shell.v1.ShellService",
  methods: { shell: { name: "Shell", I: Request, O: Answer, kind: MethodKind.BiDiStreaming } },
} as ServiceType;

interface Said {
  readonly dataOut: string;
  readonly dataErr: string;
  readonly eof: boolean;
}
interface Asked {
  readonly name: string;
  readonly dataIn: string;
}

/** Codes of terminals: colours, movements of the cursor, titles. */
const CODES =
  // deno-lint-ignore no-control-regex
  /\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])|[\x00-\x08\x0b\x0c\x0e-\x1a\x7f]/g;

export function openShell(client: RobotClient, name: string): ShellLine {
  const waiting: string[] = [""];
  let wake = () => {};
  let over = false;
  const abort = new AbortController();
  const requests = async function* (): AsyncGenerator<Asked> {
    while (!over) {
      while (waiting.length > 0) yield { name, dataIn: waiting.shift()! };
      await new Promise<void>((resolve) => wake = resolve);
    }
  };
  const service = client.createServiceClient(Service) as unknown as {
    shell(requests: AsyncIterable<Asked>, options: { signal: AbortSignal }): AsyncIterable<Said>;
  };
  const output = async function* (): AsyncGenerator<string> {
    for await (const { dataOut, dataErr, eof } of service.shell(requests(), { signal: abort.signal })) {
      yield (dataOut + dataErr).replaceAll("\r\n", "\n").replaceAll(CODES, "");
      if (eof) return;
    }
  };
  return {
    output: output(),
    send(text) {
      waiting.push(text);
      wake();
    },
    end() {
      over = true;
      wake();
      abort.abort();
    },
  };
}
