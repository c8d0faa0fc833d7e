// Takes move-in commands in order and hands their rows to the DMA, one per cycle.
#pragma once

#include "../config.hpp"
#include "clock.hpp"
#include "completions.hpp"
#include "dma_reader.hpp"
#include "reservation_station.hpp"

namespace cosim {

class LoadController {
 public:
  LoadController(const Config& config, Clock& clock, Fifo<IssuedCommand>& commands,
                 CommandTracker& tracker, DmaReader& reader);

  void tick() {
    if (!commands_.empty() && commands_.front().ready <= clock_.now) work();
  }

 private:
  void work();
  void send_row(const IssuedCommand& issued);
  RowRead row_of(const TimedCommand& command) const;

  const Config config_;
  Clock& clock_;
  Fifo<IssuedCommand>& commands_;
  CommandTracker& tracker_;
  DmaReader& reader_;

  LoadConfig configs_[3];
  bool is_moving_ = false;
  int tracked_ = 0;
  int row_ = 0;   // of the command in front
  int rows_ = 0;  // rows to request for it
};

}  // namespace cosim
