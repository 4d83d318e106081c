"""What rules, exchanges and drivers share: the trainers' channel, threads, copies."""
