// SPDX-License-Identifier: Apache-2.0
// The dumbbell of packet_twin.py in ns-3: two bulk flows, links of 10 Mbit/s, queues of 400 KB.
//
// usage: dumbbell TRANSPORT SECONDS; prints one line of JSON.
#include <ctime>
#include <iostream>
#include <string>
#include <vector>

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

using namespace ns3;

namespace {

constexpr uint32_t buffer_bytes = 6 * 1024 * 1024; // the last of Linux' tcp_rmem
constexpr uint16_t port = 5001;

using Frames = Queue<Packet>;

// Mean backlog of a port, looked at every 5 ms.
struct Backlog {
    void look() {
        sum_bytes += queue->GetNBytes();
        count++;
        Simulator::Schedule(MilliSeconds(5), &Backlog::look, this);
    }

    Ptr<Frames> queue;
    double sum_bytes = 0;
    uint64_t count = 0;
};

void set_transport(const std::string &name) {
    Config::SetDefault("ns3::TcpL4Protocol::SocketType", StringValue("ns3::" + name));
    // Linux: ten segments of 1448 bytes at first, an acknowledgement for two.
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(1448));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(10));
    Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(2));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(buffer_bytes));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(buffer_bytes));
}

} // namespace

int main(int argc, char *argv[]) {
    if (argc != 3) {
        std::cerr << "usage: dumbbell TRANSPORT SECONDS\n";
        return 2;
    }
    const double run_s = std::stod(argv[2]);
    set_transport(argv[1]);
    NodeContainer nodes;
    nodes.Create(6);
    InternetStackHelper().Install(nodes);
    PointToPointHelper link;
    link.SetDeviceAttribute("DataRate", StringValue("10Mbps"));
    link.SetChannelAttribute("Delay", StringValue("0ms"));
    link.SetQueue("ns3::DropTailQueue", "MaxSize", StringValue("400000B"));
    // Hosts 0 to 3, switches 4 and 5; the last is the bottleneck.
    const std::vector<std::pair<uint32_t, uint32_t>> ends = {{0, 4}, {1, 4}, {2, 5}, {3, 5}, {4, 5}};
    Ipv4AddressHelper addresses("10.0.0.0", "255.255.255.0");
    std::vector<Ptr<Frames>> queues;
    std::vector<Ipv4Address> hosts;
    for (const auto &[a, b] : ends) {
        const NetDeviceContainer devices = link.Install(nodes.Get(a), nodes.Get(b));
        hosts.push_back(addresses.Assign(devices).GetAddress(0));
        addresses.NewNetwork();
        // Packets wait in the ports' queues alone.
        TrafficControlHelper().Uninstall(devices);
        for (uint32_t i = 0; i < 2; i++)
            queues.push_back(DynamicCast<PointToPointNetDevice>(devices.Get(i))->GetQueue());
    }
    Ipv4GlobalRoutingHelper::PopulateRoutingTables();
    for (uint32_t i = 0; i < 2; i++) {
        BulkSendHelper sender("ns3::TcpSocketFactory", InetSocketAddress(hosts[2 + i], port));
        sender.Install(nodes.Get(i));
        PacketSinkHelper sink("ns3::TcpSocketFactory",
                              InetSocketAddress(Ipv4Address::GetAny(), port));
        sink.Install(nodes.Get(2 + i));
    }
    Backlog backlog{queues[8]};
    Simulator::Schedule(Seconds(0), &Backlog::look, &backlog);
    Simulator::Stop(Seconds(run_s));
    const std::clock_t begun = std::clock();
    Simulator::Run();
    const double cpu_s = static_cast<double>(std::clock() - begun) / CLOCKS_PER_SEC;
    uint64_t hops = 0; // what is dropped is dropped before it reaches a port's queue
    for (const auto &queue : queues)
        hops += queue->GetTotalReceivedPackets();
    std::cout << "{\"cpu_s\": " << cpu_s << ", \"hops\": " << hops
              << ", \"queue_bytes\": " << backlog.sum_bytes / static_cast<double>(backlog.count)
              << "}\n";
    Simulator::Destroy();
    return 0;
}
