"""A tour of the data of a control plane with the published Python SDK; prints one JSON object of what it saw.

Use: data_tour.py HOST:PORT KEY_ID KEY
"""

import asyncio
import json
import sys
from datetime import datetime, timedelta, timezone

from grpclib import GRPCError
from viam.app.viam_client import ViamClient
from viam.proto.app.data import DeleteTabularFilter, Filter, Order, SequenceResourceFilter
from viam.proto.app.dataset import DatasetType
from viam.rpc.dial import DialOptions

START = datetime(2024, 1, 2, 3, 4, 5, tzinfo=timezone.utc)


def at(number):
    return START + timedelta(milliseconds=number)


async def answer_of(run):
    """What a call is refused with, in the words of whoever serves it."""
    try:
        await run
        return "done"
    except GRPCError as error:
        return f"{error.status.value}: {error.message}"


async def main(address, key_id, key):
    options = DialOptions.with_api_key(key, key_id)
    options.insecure = True
    client = await ViamClient.create_from_dial_options(options, app_url=address)
    app, data = client.app_client, client.data_client
    seen = {}
    [organization] = await app.list_organizations()
    location = await app.create_location(org_id=organization.id, name="data python")
    machine_id = await app.new_robot(name="rover", location_id=location.id)
    [part] = await app.get_robot_parts(machine_id)
    dataset = await data.create_dataset(name="cats python", organization_id=organization.id)

    async def upload(content, number, **more):
        return await data.binary_data_capture_upload(
            binary_data=content,
            part_id=part.id,
            component_type="rdk:component:camera",
            component_name="cam",
            method_name="GetImages",
            file_extension=".png",
            data_request_times=(at(number), at(number + 5)),
            **more,
        )

    ids = [await upload(b"zero", 0, tags=["red"], dataset_ids=[dataset]), await upload(b"one", 1)]
    seen["again"] = await upload(b"zero", 0) == ids[0]
    ids.append(
        await data.streaming_data_capture_upload(
            data=b"streamed",
            part_id=part.id,
            file_ext="png",
            component_name="cam",
            data_request_times=(at(2), at(3)),
        )
    )
    ids.append(await data.file_upload(part_id=part.id, data=b"a file", file_name="notes", file_extension=".txt"))

    mine = Filter(part_id=part.id, mime_type=["image/png"])
    pages, last = [], None
    while last != "":
        page, count, last = await data.binary_data_by_filter(mine, limit=2, last=last, sort_order=Order.ORDER_ASCENDING)
        pages.append([one.binary.decode() for one in page])
    seen["pages"] = pages
    _, seen["count"], _ = await data.binary_data_by_filter(mine, count_only=True)
    [found] = await data.binary_data_by_ids([ids[3]])
    seen["file"] = [found.binary.decode(), found.metadata.file_name, found.metadata.capture_metadata.mime_type]

    await data.add_tags_to_binary_data_by_ids(["blue", "green"], ids[:2])
    seen["untagged"] = await data.remove_tags_from_binary_data_by_ids(["green"], ids[:1])
    seen["tags"] = list(await data.tags_by_filter(mine))
    box = await data.add_bounding_box_to_image_by_id(ids[0], "cat", 0.1, 0.2, 0.5, 0.6)
    seen["labels"] = list(await data.bounding_box_labels_by_filter(mine))
    await data.remove_bounding_box_from_image_by_id(box, ids[0])

    await data.add_binary_data_to_dataset_by_ids(ids[1:3], dataset)
    await data.remove_binary_data_from_dataset_by_ids([ids[2]], dataset)
    await data.rename_dataset(dataset, "felines python")
    names = [one.name for one in await data.list_datasets_by_organization_id(organization.id)]
    seen["renamed"] = "felines python" in names
    seen["all"] = "felines python" in [one.name for one in await data.list_dataset_by_ids([])]
    seen["sequences"] = await sequences(data, organization.id, part.id, ids)
    images, _, _ = await data.binary_data_by_filter(Filter(dataset_id=dataset))
    seen["inDataset"] = len(images)
    await data.delete_dataset(dataset)

    await data.tabular_data_capture_upload(
        part_id=part.id,
        component_type="rdk:component:sensor",
        component_name="thermometer",
        method_name="Readings",
        tabular_data=[{"readings": {"celsius": 20}}, {"readings": {"celsius": 21.5}}],
        data_request_times=[(at(0), at(1)), (at(10), at(11))],
        tags=["warm"],
    )
    source = (part.id, "thermometer", "rdk:component:sensor", "Readings")
    captured, _, latest = await data.get_latest_tabular_data(*source)
    seen["latest"] = [latest["readings"]["celsius"], captured == at(10) or captured == at(10).replace(tzinfo=None)]
    exported = await data.export_tabular_data(*source)
    seen["exported"] = [[one.payload["readings"]["celsius"], list(one.tags)] for one in exported]
    tabular, _, _ = await data.tabular_data_by_filter(Filter(part_id=part.id))
    seen["tabular"] = [one.data["readings"]["celsius"] for one in tabular]
    mean = {"$avg": "$data.readings.celsius"}
    queried = await data.tabular_data_by_mql(
        organization.id,
        [{"$match": {"component_name": "thermometer", "time_received": {"$gte": at(0)}}}, {"$limit": 1}],
    )
    seen["queried"] = [
        [one["data"], one["tags"], one["time_requested"] == at(0).replace(tzinfo=None)] for one in queried
    ] + await data.tabular_data_by_mql(organization.id, [{"$group": {"_id": "$component_name", "mean": mean}}])
    sql = "SELECT component_name, data.readings.celsius FROM readings ORDER BY time_received DESC LIMIT 1"
    seen["selected"] = await data.tabular_data_by_sql(organization.id, sql)
    seen["deleted"] = [
        await data.delete_binary_data_by_ids(ids),
        await data.delete_tabular_data(organization.id, 0, DeleteTabularFilter(component_name="barometer")),
        await data.delete_tabular_data(organization.id, 36500, DeleteTabularFilter(part_id=part.id)),
        await data.delete_tabular_data(organization.id, 0),
    ]
    seen["pipelines"] = len(await data.list_data_pipelines(organization.id))
    seen["unserved"] = [
        await answer_of(data.get_database_connection(organization.id)),
        await answer_of(client.billing_client.get_current_month_usage(organization.id)),
        await answer_of(client.provisioning_client.get_network_list()),
    ]
    client.close()
    print(json.dumps(seen))


async def sequences(data, organization, part, ids):
    """The images of a window of time, and a dataset of such windows."""
    resource = SequenceResourceFilter(resource_name="cam", method_name="GetImages")
    sequence = await data.create_sequence(part, [resource], at(0), at(1), sequence_tags=["pick"])
    found, _ = await data.get_sequence_binary_data(sequence)
    seen = [[one.metadata.binary_data_id for one in found] == ids[:2]]
    await data.update_sequence(sequence, end_time=at(0) + timedelta(microseconds=500), sequence_tags=[])
    found, more = await data.get_sequence_binary_data(sequence, page_size=1)
    seen.append([len(found), more])
    listed, _ = await data.list_sequences(organization)
    seen.append([one.id for one in listed] == [sequence])
    dataset = await data.create_dataset("demos python", organization, type=DatasetType.DATASET_TYPE_SEQUENCE_DATA)
    await data.add_sequences_to_dataset(dataset, [sequence])
    inside, _, count = await data.sequences_by_dataset_id(dataset)
    seen.append([len(inside), count, list((await data.get_sequence(sequence)).dataset_ids) == [dataset]])
    await data.remove_sequences_from_dataset(dataset, [sequence])
    _, _, count = await data.sequences_by_dataset_id(dataset, count_only=True)
    seen.append(count)
    await data.delete_sequence(sequence)
    await data.delete_dataset(dataset)
    return seen


asyncio.run(main(*sys.argv[1:]))
