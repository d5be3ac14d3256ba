"""The shell service through the stubs of the published Python SDK, in the order of messages of the published
command line's `machines part shell` and `machines part cp`.

It prints one JSON object of what it saw; the test that started it judges.  Use: python_shell.py HOST:PORT FOLDER
"""

import asyncio
import json
import os
import sys

from grpclib.exceptions import GRPCError, ProtocolError, StreamTerminatedError
from viam.gen.service.shell.v1.shell_grpc import ShellServiceStub
from viam.proto.service.shell import (
    CopyFilesFromMachineRequest,
    CopyFilesFromMachineRequestMetadata,
    CopyFilesSourceType,
    CopyFilesToMachineRequest,
    CopyFilesToMachineRequestMetadata,
    FileData,
    ShellRequest,
)
from viam.robot.client import RobotClient
from viam.rpc.dial import DialOptions
from viam.utils import dict_to_struct

NAME = "shell"
LARGE = bytes(range(256)) * 4096 * 5


async def shell(stub):
    size = {"message": "window-change", "cols": 90, "rows": 20}
    output, eof = "", False
    async with stub.Shell.open() as stream:
        await stream.send_message(ShellRequest(name=NAME, extra=dict_to_struct({"messages": [size]})))
        await stream.send_message(ShellRequest(name=NAME, data_in="stty size; echo $TERM-$((6*7))\n"))
        while "-42" not in output:
            output += (await stream.recv_message()).data_out
        await stream.send_message(ShellRequest(name=NAME, extra=dict_to_struct({**size, "rows": 21})))
        await stream.send_message(ShellRequest(name=NAME, data_in="stty size; exit\n"), end=True)
        async for answer in stream:
            output += answer.data_out
            eof = answer.eof
    return {"output": output, "eof": eof}


async def to_machine(stub, destination, files, source):
    """`files`: name and content, None for a folder."""
    metadata = CopyFilesToMachineRequestMetadata(
        name=NAME, source_type=source, destination=destination, preserve=True
    )
    async with stub.CopyFilesToMachine.open() as stream:
        await stream.send_message(CopyFilesToMachineRequest(metadata=metadata))
        acknowledged = 0
        for name, content in files:
            header = {"name": name, "size": len(content or b""), "is_dir": content is None, "mode": 0o755}
            if content is None:
                parts = [FileData(**header, eof=True)]
            else:
                # As large as the published sender makes them, then an empty part with the end.
                parts = [FileData(**header, data=content[: 1 << 24]), FileData(eof=True)]
                if content == b"":
                    parts = [FileData(**header, eof=True)]
            for part in parts:
                await stream.send_message(CopyFilesToMachineRequest(file_data=part))
            acknowledged += (await stream.recv_message()).ack_last_file
        await stream.end()
        assert await stream.recv_message() is None
    return acknowledged


async def from_machine(stub, paths, recursive):
    metadata = CopyFilesFromMachineRequestMetadata(
        name=NAME, paths=paths, allow_recursion=recursive, preserve=True
    )
    source, files, name, content = None, {}, None, b""
    try:
        async with stub.CopyFilesFromMachine.open() as stream:
            await stream.send_message(CopyFilesFromMachineRequest(metadata=metadata))
            source = (await stream.recv_message()).metadata.source_type
            while (answer := await stream.recv_message()) is not None:
                data = answer.file_data
                if name is None:
                    name, content = data.name, b""
                elif data.name:
                    raise ValueError(f"{data.name} began within {name}")
                if data.eof:
                    files[name] = content
                    name = None
                    await stream.send_message(CopyFilesFromMachineRequest(ack_last_file=True))
                else:
                    content += data.data
    except (StreamTerminatedError, ProtocolError):
        # The server ends the call when everything is acknowledged; grpclib wants this side to end it first.
        assert name is None
    return CopyFilesSourceType.Name(source), files


async def main(address, folder):
    options = RobotClient.Options(dial_options=DialOptions(insecure=True, disable_webrtc=True))
    robot = await RobotClient.at_address(address, options)
    stub = ShellServiceStub(robot._channel)
    seen = {"shell": await shell(stub)}

    files = [("tree/large", LARGE), ("tree/empty", b""), ("tree", None)]
    directory = CopyFilesSourceType.COPY_FILES_SOURCE_TYPE_SINGLE_DIRECTORY
    seen["acknowledged"] = await to_machine(stub, folder, files, directory)
    seen["mode"] = os.stat(f"{folder}/tree/large").st_mode & 0o777
    source, back = await from_machine(stub, [f"{folder}/tree"], True)
    seen["back"] = {"source": source, "names": list(back), "same": back["tree/large"] == LARGE}
    try:
        await from_machine(stub, [folder], False)
    except GRPCError as error:
        seen["refused"] = {"status": error.status.name, "message": error.message}
    print(json.dumps(seen))
    await robot.close()


asyncio.run(main(*sys.argv[1:]))
