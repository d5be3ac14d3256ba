/** What a caller may get wrong in a message of any language, and no client of ours can send. */

import { FakeAudioOut } from "../../../drivers/audio_out/fake.ts";
import { FakeBoard } from "../../../drivers/board/fake.ts";
import { FakeInputController } from "../../../drivers/input_controller/fake.ts";
import { BuiltinShell } from "../../../drivers/shell/builtin.ts";
import { AudioOutService } from "../../../proto/gen/audio_out_pb.ts";
import { BoardService } from "../../../proto/gen/board_pb.ts";
import { InputControllerService } from "../../../proto/gen/input_controller_pb.ts";
import { CopyFilesSourceType, ShellService } from "../../../proto/gen/shell_pb.ts";
import { construct } from "../../../tests/support/construct.ts";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { assertRefused } from "../../../tests/support/refusals.ts";
import { client } from "../../wire/rpc/channel.ts";
import { memoryChannel } from "../../wire/rpc/memory.ts";
import { ServiceTable } from "../../wire/rpc/service.ts";
import { AudioOutApi } from "../actuators/audio_out.ts";
import { BoardApi } from "../actuators/board.ts";
import { InputControllerApi } from "../sensors/input_controller.ts";
import { ShellApi } from "../services/shell.ts";

Deno.test("a board takes no power mode that it does not know", async () => {
  const clock = new FakeClock(), table = new ServiceTable(clock);
  const board = await construct(FakeBoard, {}, { clock });
  table.add(BoardApi.serve(() => board));
  const { setPowerMode } = client(BoardService, memoryChannel(table));
  for (const powerMode of [0, 3]) {
    const words = `power mode ${powerMode} is unknown, wanted normal (1) or offline_deep (2)`;
    await assertRefused("invalid_argument", words, () => setPowerMode({ name: "test", powerMode }));
  }
  await board.close();
});

Deno.test("an input controller takes no request to trigger nothing, or an event with a long name", async () => {
  const clock = new FakeClock(), table = new ServiceTable(clock);
  const controller = await construct(FakeInputController, {}, { clock });
  table.add(InputControllerApi.serve(() => controller));
  const { triggerEvent } = client(InputControllerService, memoryChannel(table));
  await assertRefused(
    "invalid_argument",
    "triggering an event of test: got no event",
    () => triggerEvent({ controller: "test" }),
  );
  const long = "x".repeat(201);
  for (const event of [{ control: long, event: "ButtonPress" }, { control: "ButtonStart", event: long }]) {
    await assertRefused(
      "invalid_argument",
      "triggering an event of test: got a name of 201 characters, wanted at most 200",
      () => triggerEvent({ controller: "test", event }),
    );
  }
  await triggerEvent({ controller: "test", event: { control: long.slice(1), event: "ButtonPress" } });
  await controller.close();
});

Deno.test("a stream of sound begins with its format", async () => {
  const clock = new FakeClock(), table = new ServiceTable(clock);
  const speaker = await construct(FakeAudioOut, {}, { clock });
  table.add(AudioOutApi.serve(() => speaker));
  const { playStream } = client(AudioOutService, memoryChannel(table));
  const chunk = { payload: { case: "audioChunk" as const, value: { audioData: Uint8Array.of(1, 2) } } };
  for (const messages of [[], [chunk], [{}]]) {
    const requests = async function* () {
      yield* messages;
    };
    await assertRefused(
      "invalid_argument",
      "playing a stream: the first message is no init, wanted one",
      () => playStream(requests()),
    );
  }
  await speaker.close();
});

Deno.test("copies of files begin with what is copied, and bring nothing else afterwards", async () => {
  const clock = new FakeClock(), table = new ServiceTable(clock);
  const shell = await construct(BuiltinShell, {}, { clock });
  table.add(ShellApi.serve(() => shell));
  const { copyFilesToMachine, copyFilesFromMachine } = client(ShellService, memoryChannel(table));
  const folder = await Deno.makeTempDir();
  const metadata = (sourceType: number) => {
    const value = { name: "test", sourceType, destination: `${folder}/a` };
    return { request: { case: "metadata" as const, value } };
  };
  const fileData = { request: { case: "fileData" as const, value: { data: Uint8Array.of(1) } } };
  const { SINGLE_FILE } = CopyFilesSourceType;
  const cases = [
    [[], "got no request"],
    [[fileData], "began with fileData, wanted metadata"],
    [[{}], "began with nothing, wanted metadata"],
    [[metadata(0)], "cannot copy from source type 0, wanted a file, folder or files"],
    [[metadata(SINGLE_FILE), metadata(SINGLE_FILE)], "found metadata, wanted file data"],
    [[metadata(SINGLE_FILE), {}], "found nothing, wanted file data"],
  ] as const;
  for (const [messages, words] of cases) {
    const requests = async function* () {
      yield* messages;
    };
    await assertRefused("invalid_argument", words, () => Array.fromAsync(copyFilesToMachine(requests())));
  }
  const taken = { request: { case: "ackLastFile" as const, value: true } };
  for (const [messages, words] of [[[], "got no request"], [[taken], "began with ackLastFile"]] as const) {
    const requests = async function* () {
      yield* messages;
    };
    await assertRefused("invalid_argument", words, () => Array.fromAsync(copyFilesFromMachine(requests())));
  }
  await shell.close();
  await Deno.remove(folder, { recursive: true });
});
