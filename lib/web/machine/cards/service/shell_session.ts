/** A shell on the machine as two streams of text, as its terminal has them. */

import { MethodKind, type ServiceType, Struct } from "@bufbuild/protobuf";
import type { MessageType } from "@bufbuild/protobuf";
import type { RobotClient } from "@viamrobotics/sdk";
import { wireMessage } from "../../link/wire.ts";

export interface TerminalSize {
  readonly cols: number;
  readonly rows: number;
}

export interface ShellLine {
  /** What the shell writes, with the codes of terminals. */
  readonly output: AsyncIterable<string>;
  send(text: string): void;
  resize(size: TerminalSize): void;
  end(): void;
}

const Request = wireMessage("viam.service.shell.v1.ShellRequest", {
  name: [1, "string"],
  data_in: [2, "string"],
  extra: [99, Struct as unknown as MessageType],
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

interface Printed {
  readonly dataOut: string;
  readonly dataErr: string;
  readonly eof: boolean;
}
interface Asked {
  readonly name: string;
  readonly dataIn: string;
  readonly extra?: Struct;
}

export function openShell(client: RobotClient, name: string, size: TerminalSize): ShellLine {
  const resizing = ({ cols, rows }: TerminalSize) => ({ message: "window-change", cols, rows });
  // The first request has what the terminal is like before anything is typed.
  const waiting: Asked[] = [{ name, dataIn: "", extra: Struct.fromJson({ messages: [resizing(size)] }) }];
  let wake = () => {};
  let over = false;
  const abort = new AbortController();
  const requests = async function* (): AsyncGenerator<Asked> {
    while (!over) {
      while (waiting.length > 0) yield waiting.shift()!;
      await new Promise<void>((resolve) => wake = resolve);
    }
  };
  const ask = (request: Asked) => {
    waiting.push(request);
    wake();
  };
  const service = client.createServiceClient(Service) as unknown as {
    shell(requests: AsyncIterable<Asked>, options: { signal: AbortSignal }): AsyncIterable<Printed>;
  };
  const output = async function* (): AsyncGenerator<string> {
    for await (const { dataOut, dataErr, eof } of service.shell(requests(), { signal: abort.signal })) {
      yield dataOut + dataErr;
      if (eof) return;
    }
  };
  return {
    output: output(),
    send: (text) => ask({ name, dataIn: text }),
    resize: (wanted) => ask({ name, dataIn: "", extra: Struct.fromJson(resizing(wanted)) }),
    end() {
      over = true;
      wake();
      abort.abort();
    },
  };
}
