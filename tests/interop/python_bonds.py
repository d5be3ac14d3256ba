"""What ties a client to a machine, with the published Python SDK dialled as by default (WebRTC first).

Each way turns the example machine's motor, says so in one line, and leaves the rest to the test that started it.

Use: python_bonds.py HOST:PORT hold|give-up|reconnect
"""

import asyncio
import logging
import sys

from viam.components.motor import Motor
from viam.robot.client import RobotClient
from viam.rpc.dial import DialOptions


def say(word):
    print(word, flush=True)


async def hold(robot):
    """Turns the motor and stays, for longer than a session lives without heartbeats."""
    await Motor.from_robot(robot, "motor1").set_power(0.5)
    await asyncio.sleep(3)
    say("holding")
    await asyncio.Event().wait()


async def give_up(robot):
    """Begins a movement of an hour and gives the call up."""
    call = asyncio.create_task(Motor.from_robot(robot, "motor1").go_for(rpm=10, revolutions=600))
    while not await Motor.from_robot(robot, "motor1").is_moving():
        await asyncio.sleep(0.05)
    call.cancel()
    say("given up")
    await asyncio.Event().wait()


async def reconnect(robot):
    """Loses the machine and finds it again, without being told."""
    say("connected")
    await asyncio.to_thread(sys.stdin.readline)
    while True:
        try:
            await Motor.from_robot(robot, "motor1").is_moving()
            break
        except Exception:
            await asyncio.sleep(0.2)
    say("connected again")
    await robot.close()


async def main(address, way):
    dial = DialOptions(insecure=True, max_reconnect_attempts=1000)
    options = RobotClient.Options(dial_options=dial, check_connection_interval=1, log_level=logging.CRITICAL)
    robot = await RobotClient.at_address(address, options)
    await {"hold": hold, "give-up": give_up, "reconnect": reconnect}[way](robot)


asyncio.run(main(*sys.argv[1:]))
